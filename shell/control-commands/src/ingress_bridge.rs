//! Finds the bridge that receives the packets of a datapath flow, and the flow as OpenFlow sees it there.

use flow::{Flow, Tunnel};
use std::net::{Ipv4Addr, Ipv6Addr};
use switch::Backer;
use translation::PublishedState;
use units::PortNo;
use xlate::{BridgeId, Recirc};

/// The bridge that receives the packets of a datapath flow, and the flow as that bridge sees it. The error says why no bridge receives the packets.
pub(crate) fn ingress_bridge(
    backer: &Backer,
    published: &PublishedState,
    key: &Flow,
) -> Result<(BridgeId, Flow), String> {
    if key.recirc_id != 0 {
        let state = backer.shared.state(key.recirc_id);
        let state =
            state.ok_or_else(|| format!("no recirculation data for recirc_id {:#x}", key.recirc_id))?;
        // Translation restores the rest of the frozen state, which the datapath did not report.
        return Ok((state.bridge, Flow { in_port: state.metadata.in_port.0.into(), ..*key }));
    }
    let found = published.snapshot.receive(key);
    if found.is_some_and(|(_, flow)| flow.has_raw_options()) {
        return Err("Failed to parse Geneve options".to_owned());
    }
    found.ok_or_else(|| match bridge::tunnel::is_tunnelled(&key.tunnel) {
        true => "no OpenFlow tunnel port for this packet".to_owned(),
        false => format!("no OpenFlow port for datapath port {}", PortNo(key.in_port).0),
    })
}

/// Text about the outer addresses and the key of a packet that came from a tunnel: they determine the tunnel port of the packet.
pub(crate) fn tunnel_text(outer: &Tunnel) -> Option<String> {
    use bridge::tunnel::{as_ipv4, destination, source};
    let text =
        |a| as_ipv4(a).map_or_else(|| Ipv6Addr::from(a).to_string(), |v4| Ipv4Addr::from(v4).to_string());
    bridge::tunnel::is_tunnelled(outer).then(|| {
        format!(
            "which came from {} to {} with key {}",
            text(source(outer)),
            text(destination(outer)),
            outer.tun_id
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tunnels_in_words() {
        assert_eq!(tunnel_text(&Tunnel::default()), None);
        let outer = Tunnel { ip_src: 0xc000_0201, ip_dst: 0xc000_0202, tun_id: 100, ..Tunnel::default() };
        assert_eq!(tunnel_text(&outer).unwrap(), "which came from 192.0.2.1 to 192.0.2.2 with key 100");
    }
}
