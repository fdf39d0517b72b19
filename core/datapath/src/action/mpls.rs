//! MPLS label stack entries (RFC 3032): between the Ethernet type and the network header.

use crate::packet::Packet;
use packet::ether::ethertype;

/// Pushes an outermost entry. Returns `None` if there is not enough headroom.
pub fn push(p: &mut Packet, ethertype: u16, lse: u32) -> Option<()> {
    let l3 = usize::from(p.offsets().l3);
    if p.meta.packet_type == 0 && l3 < 14 {
        return Some(());
    }
    p.frame.push_front(4)?;
    let bytes = p.frame.bytes_mut();
    bytes.copy_within(4..4 + l3, 0);
    bytes[l3..l3 + 4].copy_from_slice(&lse.to_be_bytes());
    set_type(p, l3, ethertype);
    p.frame.shift_offload(4);
    Some(())
}

/// Pushes an entry in front of the complete frame, which becomes the payload. Returns `None` if there is not enough
/// headroom.
pub fn add(p: &mut Packet, ethertype: u16, lse: u32) -> Option<()> {
    p.frame.push_front(4)?.copy_from_slice(&lse.to_be_bytes());
    p.meta.packet_type = 1 << 16 | u32::from(ethertype);
    p.offsets = None;
    Some(())
}

/// Removes the outermost entry, if there is one.
pub fn pop(p: &mut Packet, ethertype: u16) {
    let offsets = p.offsets();
    let l3 = usize::from(offsets.l3);
    if !ethertype::is_mpls(offsets.dl_type) || p.frame.len() < l3 + 4 {
        return;
    }
    p.frame.bytes_mut().copy_within(..l3, 4);
    if p.frame.pull_front(4).is_some() {
        set_type(p, l3, ethertype);
        p.frame.shift_offload(-4);
    }
}

fn set_type(p: &mut Packet, l3: usize, ethertype: u16) {
    match p.meta.packet_type {
        0 => p.frame.bytes_mut()[l3 - 2..l3].copy_from_slice(&ethertype.to_be_bytes()),
        // The payload of the last entry is an Ethernet frame.
        _ if ethertype == ethertype::TEB => p.meta.packet_type = 0,
        _ => p.meta.packet_type = 1 << 16 | u32::from(ethertype),
    }
    p.offsets = None;
}

/// Writes bits of the outermost entry.
pub fn set(p: &mut Packet, value: u32, mask: u32) {
    let offsets = p.offsets();
    if !ethertype::is_mpls(offsets.dl_type) {
        return;
    }
    let entry = p.frame.bytes_mut().get_mut(usize::from(offsets.l3)..).and_then(|b| b.first_chunk_mut::<4>());
    if let Some(entry) = entry {
        *entry = (u32::from_be_bytes(*entry) & !mask | value & mask).to_be_bytes();
    }
}
