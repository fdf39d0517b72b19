//! Informs other switches when traffic of a bond moves to another link, because they learned the stations at the old
//! link.

use crate::backer::Backer;
use bond::{Choice, View};
use flow::Mac;
use openflow::Action;
use openflow_service::Bridge;
use translation::OwnFrame;
use translation::lacp::port_rows::PortRowKey;
use units::Millis;

/// Sends one frame from each station behind other ports of the bridge, through the link that the station's traffic uses
/// now.
pub(super) fn stations(backer: &Backer, bridge: &Bridge, key: &PortRowKey, view: &View, now: Millis) {
    let own = bridge.known_bundle(&key.1);
    let stations: Vec<(Mac, u16)> = {
        let table = bridge.macs.lock();
        table.iter().filter(|e| Some(e.port) != own).map(|e| (e.mac, e.vlan)).collect()
    };
    let published = backer.shared.published();
    for (mac, vlan) in stations {
        let link = match view.choice() {
            Choice::Link(link) => Some(link),
            Choice::ByStation => view.owner(view.bucket_of(mac, vlan)),
            Choice::ByConnection | Choice::Nowhere => None,
        };
        let Some(link) = link else { continue };
        let frame = frame(mac, vlan);
        let actions = [Action::output(link)];
        let own = OwnFrame { bridge: bridge.id, from: OwnFrame::NO_PORT, frame: &frame, actions: &actions };
        backer.upcall_translator.send(&backer.datapath, &published, &own, now);
    }
}

/// A RARP request (RFC 903) with the station as its source. No answer is expected: other switches only learn the source
/// address.
fn frame(mac: Mac, vlan: u16) -> Vec<u8> {
    const RARP: [u8; 2] = [0x80, 0x35];
    /// Hardware type Ethernet, protocol type IPv4, the lengths of their addresses, opcode "request reverse".
    const REQUEST_HEADER: [u8; 8] = [0, 1, 8, 0, 6, 4, 0, 3];
    let tag = if vlan == 0 { Vec::new() } else { [[0x81, 0x00], vlan.to_be_bytes()].concat() };
    [&Mac::BROADCAST.0[..], &mac.0, &tag, &RARP, &REQUEST_HEADER, &mac.0, &[0; 4], &mac.0, &[0; 4]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use flow::extract::extract_from;

    #[test]
    fn the_frame_comes_from_the_station() {
        let mac = Mac([2, 0, 0, 0, 0, 9]);
        let flow = extract_from(&frame(mac, 7), 1);
        assert_eq!((flow.dl_src, flow.dl_dst, flow.dl_type), (mac, Mac::BROADCAST, 0x8035));
        assert_eq!((flow.vlan_vid(), frame(mac, 0).len(), frame(mac, 7).len()), (Some(7), 42, 46));
    }
}
