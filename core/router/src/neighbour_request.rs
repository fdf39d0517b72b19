//! Requests for a neighbour's Ethernet address: ARP (RFC 826) or neighbour solicitation (RFC 4861 §4.3).

use flow::Mac;
use packet::checksum;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const ETHERTYPE_ARP: [u8; 2] = [0x08, 0x06];
const ETHERTYPE_IPV6: [u8; 2] = [0x86, 0xdd];
const ICMPV6: u8 = 58;
const SOLICITATION: u8 = 135;
/// Length of a neighbour solicitation with the option for the sender's Ethernet address, in bytes.
const SOLICITATION_LEN: u8 = 32;

/// The frame of a request from a device with Ethernet address `mac` and IP address `source` for the Ethernet address of `target`. `None`:
/// the addresses have different families.
pub fn neighbour_request(mac: Mac, source: IpAddr, target: IpAddr) -> Option<Vec<u8>> {
    match (source, target) {
        (IpAddr::V4(source), IpAddr::V4(target)) => Some(arp(mac, source, target)),
        (IpAddr::V6(source), IpAddr::V6(target)) => Some(solicitation(mac, source, target)),
        _ => None,
    }
}

fn arp(mac: Mac, source: Ipv4Addr, target: Ipv4Addr) -> Vec<u8> {
    let mut out = [0xff; 6].to_vec();
    out.extend(mac.0);
    out.extend(ETHERTYPE_ARP);
    // Hardware type Ethernet, protocol IPv4, lengths of their addresses, operation "request".
    out.extend([0, 1, 8, 0, 6, 4, 0, 1]);
    out.extend(mac.0);
    out.extend(source.octets());
    out.extend([0; 6]);
    out.extend(target.octets());
    out
}

fn solicitation(mac: Mac, source: Ipv6Addr, target: Ipv6Addr) -> Vec<u8> {
    let [.., a, b, c] = target.octets();
    let group = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, a, b, c];
    let mut message = vec![SOLICITATION, 0, 0, 0, 0, 0, 0, 0];
    message.extend(target.octets());
    // Option 1, source link-layer address; its length is one unit of 8 bytes.
    message.extend([1, 1]);
    message.extend(mac.0);
    let pseudo = checksum::pseudo_v6(&source.octets(), &group, ICMPV6, u32::from(SOLICITATION_LEN));
    let sum = checksum::finish(checksum::add(pseudo, &message));
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let mut out = vec![0x33, 0x33, 0xff, a, b, c];
    out.extend(mac.0);
    out.extend(ETHERTYPE_IPV6);
    out.extend([0x60, 0, 0, 0, 0, SOLICITATION_LEN, ICMPV6, 255]);
    out.extend(source.octets());
    out.extend(group);
    out.extend(message);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::hex;

    const MAC: Mac = Mac([0xaa, 0x55, 0xaa, 0x55, 0, 0]);

    #[test]
    fn requests_as_on_the_wire() {
        let arp = neighbour_request(MAC, "1.1.2.88".parse().unwrap(), "1.1.2.92".parse().unwrap()).unwrap();
        let want = "ffffffffffffaa55aa55000008060001080006040001aa55aa550000010102580000000000000101025c";
        assert_eq!(arp, hex::parse(want).unwrap());
        let (source, target) = ("2001:cafe::88".parse().unwrap(), "2001:cafe::92".parse().unwrap());
        let nd = neighbour_request(MAC, source, target).unwrap();
        let want = "3333ff000092aa55aa55000086dd6000000000203aff2001cafe000000000000000000000088ff02000000000000\
                    00000001ff00009287004d48000000002001cafe0000000000000000000000920101aa55aa550000";
        assert_eq!(nd, hex::parse(want).unwrap());
        assert_eq!(neighbour_request(MAC, source, "1.1.1.1".parse().unwrap()), None);
    }
}
