//! The inner packets of packets in tunnels.

use crate::checksum::{fold, sum};
use crate::packet::Packet;
use crate::tunnels::{GENEVE, HOST, HOST_MAC, OPTION, UDP_SOURCE, UNDERLAY, VXLAN};

/// The inner packet of a packet in a tunnel.
#[derive(Debug, PartialEq, Eq)]
pub struct Inner {
    /// The datapath's key of the inner packet, without the fields of the packet itself.
    pub key: String,
    /// The inner packet; its port is the tunnel's number in the datapath.
    pub packet: Packet,
}

/// The number in the datapath of the port for GRE. The other ports have the number of their UDP port.
const GRE_PORT: u16 = 10;

/// Returns the inner packet; `None` if the packet is not in a tunnel, or its outer header is wrong.
pub fn inner(packet: &Packet) -> Option<Inner> {
    let frame = packet.bytes.strip_prefix(&HOST_MAC).filter(|_| packet.port == UNDERLAY)?;
    let (ip, payload) = frame.get(6..)?.strip_prefix(&[8, 0])?.split_at_checked(20)?;
    let is_whole = ip[..1] == [0x45] && fold(sum(ip)) == [0, 0] && ip[16..] == HOST;
    let length = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
    if !is_whole || length != ip.len() + payload.len() || ip[6] & 0xbf != 0 || ip[7] != 0 {
        return None;
    }
    let (port, key, options, bytes) = match ip[9] {
        47 => {
            let (key, bytes) = payload.strip_prefix(&[0x20, 0, 0x65, 0x58])?.split_first_chunk()?;
            (GRE_PORT, u32::from_be_bytes(*key), String::new(), bytes)
        }
        17 => inner_of_udp(payload)?,
        _ => return None,
    };
    let udp = if ip[9] == 17 { format!(",tp_src={UDP_SOURCE},tp_dst={port}") } else { String::new() };
    let source = ip[12..16].iter().map(u8::to_string).collect::<Vec<_>>().join(".");
    let key = format!(
        "tunnel(tun_id={key:#x},src={source},dst={},tos={:#x},ttl={}{udp}{options},flags(key)),in_port({port})",
        std::net::Ipv4Addr::from(HOST),
        ip[1],
        ip[8]
    );
    Some(Inner { key, packet: Packet { port, bytes: bytes.to_vec() } })
}

/// The UDP port, the key, the options as text, and the inner packet of VXLAN and Geneve.
fn inner_of_udp(payload: &[u8]) -> Option<(u16, u32, String, &[u8])> {
    let (udp, payload) = payload.split_at_checked(8)?;
    let port = u16::from_be_bytes([udp[2], udp[3]]);
    // The packets have no UDP checksum, which is zero. Neither switch looks at the UDP length.
    if udp[..2] != UDP_SOURCE.to_be_bytes() || udp[6..] != [0, 0] {
        return None;
    }
    let (header, rest) = payload.split_at_checked(8)?;
    let key = u32::from_be_bytes([0, header[4], header[5], header[6]]);
    match (port, &header[..4], header[7]) {
        (VXLAN, [8, 0, 0, 0], 0) => Some((port, key, String::new(), rest)),
        (GENEVE, [0, 0, 0x65, 0x58], 0) => Some((port, key, String::new(), rest)),
        (GENEVE, [2, 0, 0x65, 0x58], 0) => {
            let rest = rest.strip_prefix(&OPTION)?;
            Some((port, key, ",geneve({class=0xffff,type=0,len=4,0x1234})".to_owned(), rest))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use crate::tunnels::encapsulated;

    #[test]
    fn inner_packets_are_found() {
        let mut rng = Rng::new(3);
        let packets: Vec<Packet> =
            (0..200).map(|_| Packet { port: UNDERLAY, bytes: encapsulated(&mut rng, &[7; 60]) }).collect();
        let found: Vec<Inner> = packets.iter().filter_map(inner).collect();
        assert!((150..200).contains(&found.len()), "{}", found.len());
        let is_whole = |i: &Inner| i.packet.bytes == [7; 60] && i.key.contains("src=172.31.1.9");
        assert!(found.iter().filter(|i| is_whole(i)).count() > 150);
        for part in ["in_port(10)", "tp_dst=4789,flags", "tp_dst=6081,flags", "geneve({class=0xffff,type=0,"]
        {
            assert!(found.iter().any(|i| i.key.contains(part)), "{part}");
        }
        assert_eq!(inner(&Packet { port: 1, ..packets[0].clone() }), None);
    }
}
