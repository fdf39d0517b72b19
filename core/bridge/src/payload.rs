//! The payload of a frame whose Ethertype is that of a protocol of the switch.

use flow::Mac;
use packet::ethertype;

/// The source address and the payload of a frame with this Ethertype, behind any VLAN tags. `None`: the frame is truncated or has another
/// Ethertype.
pub(crate) fn payload(frame: &[u8], wanted: u16) -> Option<(Mac, &[u8])> {
    let source = Mac(*frame.get(6..)?.first_chunk()?);
    let mut rest = frame.get(12..)?;
    // At most as many tags are skipped as the switch itself parses.
    for _ in 0..=flow::flow::VLANS_MAX {
        let (kind, after) = rest.split_first_chunk()?;
        match u16::from_be_bytes(*kind) {
            kind if kind == wanted => return Some((source, after)),
            ethertype::VLAN | ethertype::QINQ => rest = after.get(2..)?,
            _ => return None,
        }
    }
    None
}
