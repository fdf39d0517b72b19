//! VLAN tags (IEEE 802.1Q): four bytes after the Ethernet addresses.

use crate::packet::Packet;
use flow::VLAN_CFI;
use packet::ether::ethertype;

/// Pushes an outermost tag. `tci` may have the "present" bit of a flow; this bit is not written into the packet.
/// Returns `None` if there is not enough headroom.
pub fn push(p: &mut Packet, tpid: u16, tci: u16) -> Option<()> {
    if p.frame.len() < 14 || p.meta.packet_type != 0 {
        return Some(());
    }
    p.frame.push_front(4)?;
    let bytes = p.frame.bytes_mut();
    if let Some(head) = bytes.first_chunk_mut::<16>() {
        let (tpid, tci) = (u128::from(tpid), u128::from(tci & !VLAN_CFI));
        *head = (u128::from_be_bytes(*head) << 32 | tpid << 16 | tci).to_be_bytes();
    }
    p.frame.shift_offload(4);
    p.offsets = None;
    Some(())
}

/// Removes the outermost tag, if there is one.
pub fn pop(p: &mut Packet) {
    let bytes = p.frame.bytes_mut();
    let Some(&[a, b]) = bytes.get(12..14).and_then(|t| t.first_chunk::<2>()) else { return };
    if p.meta.packet_type != 0 || bytes.len() < 18 || !ethertype::is_vlan(u16::from_be_bytes([a, b])) {
        return;
    }
    bytes.copy_within(0..12, 4);
    if p.frame.pull_front(4).is_some() {
        p.frame.shift_offload(-4);
        p.offsets = None;
    }
}
