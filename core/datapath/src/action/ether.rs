//! Ethernet addresses and headers.

use crate::packet::Packet;
use dpif::{EthKey, Masked};
use flow::Mac;
use packet::ether::ethertype;

/// Writes bits of both addresses. Does nothing if the packet has no Ethernet header.
pub fn set(p: &mut Packet, m: &Masked<EthKey>) {
    if p.meta.packet_type != 0 {
        return;
    }
    if let Some((addresses, _)) = p.frame.bytes_mut().split_first_chunk_mut::<12>() {
        let ((value, mask), mut old) = ((word(&m.value), word(&m.mask)), [0; 16]);
        old[..12].copy_from_slice(addresses);
        let new = u128::from_be_bytes(old) & !mask | value & mask;
        addresses.copy_from_slice(&new.to_be_bytes()[..12]);
    }
}

/// Both addresses in the upper 96 bits of a number, in network byte order.
fn word(key: &EthKey) -> u128 {
    u128::from(key.dst.to_u64()) << 80 | u128::from(key.src.to_u64()) << 32
}

/// Pushes an Ethernet header on a layer 3 packet; does nothing if the packet has one. Returns `None` if there is not enough headroom.
pub fn push(p: &mut Packet, dst: Mac, src: Mac) -> Option<()> {
    if p.meta.packet_type == 0 {
        return Some(());
    }
    let header = p.frame.push_front(14)?;
    header[..6].copy_from_slice(&dst.0);
    header[6..12].copy_from_slice(&src.0);
    header[12..].copy_from_slice(&(p.meta.packet_type as u16).to_be_bytes());
    p.frame.shift_offload(14);
    p.meta.packet_type = 0;
    p.offsets = None;
    Some(())
}

/// Removes the Ethernet header. The control half does not remove it from packets with a parsed VLAN tag. So a tag after the
/// header was not parsed, and it stays as payload.
pub fn pop(p: &mut Packet) {
    let l3 = p.offsets().l3;
    let type_before = |end: u16| {
        let two = p.frame.bytes().get(usize::from(end.checked_sub(2)?)..)?.first_chunk();
        two.map(|two| u16::from_be_bytes(*two))
    };
    let header = if type_before(14).is_some_and(ethertype::is_vlan) { 14 } else { l3 };
    // In an 802.3 frame, the last two bytes of the header are a length instead of a type. The length is kept as the packet
    // type, so a header that is pushed later has it again.
    let kind = type_before(header);
    if let (0, Some(kind)) = (p.meta.packet_type, kind)
        && p.frame.pull_front(usize::from(header)).is_some()
    {
        p.frame.shift_offload(-(header as i16));
        p.meta.packet_type = 1 << 16 | u32::from(kind);
        p.offsets = None;
    }
}
