//! Checksums of the transport header, and the ports.
//!
//! A UDP checksum of zero stays zero (RFC 768: not computed; RFC 8200 forbids it over IPv6, but that is the sender's
//! responsibility). If the sender has left the checksum to the device, it is *unfinished*: its field holds the sum of the
//! pseudo header, not complemented. Changes of addresses are added to it, changes of ports are not.

use crate::header_offsets::HeaderOffsets;
use crate::packet::Packet;
use dpif::{Masked, PortsKey};
use packet::checksum::{update16, update32, update128};
use packet::{Icmp, Tcp, Udp, ipproto};

/// A change of bytes that the transport checksum covers.
pub enum Change<'a> {
    /// An IPv4 address of the pseudo header: old and new.
    Address4(u32, u32),
    /// An IPv6 address of the pseudo header: old and new.
    Address6(&'a [u8; 16], &'a [u8; 16]),
    /// A 16-bit word of the transport header itself: old and new.
    Word(u16, u16),
}

/// Returns the offset of the transport checksum; `None` if the packet has none, or ends within the header.
fn field_at(offsets: &HeaderOffsets) -> Option<usize> {
    let (offset, header) = match offsets.proto {
        ipproto::TCP => (16, Tcp::LEN),
        ipproto::UDP => (6, Udp::LEN),
        ipproto::ICMPV6 | ipproto::ICMP => (2, Icmp::LEN),
        _ => return None,
    };
    let l4 = usize::from(offsets.l4?);
    (offsets.l4_len() >= header).then_some(l4 + offset)
}

/// Updates the transport checksum for a change.
pub fn update_checksum(p: &mut Packet, change: &Change<'_>) {
    let offsets = p.offsets();
    let in_pseudo_header = !matches!(change, Change::Word(..));
    if offsets.proto == ipproto::ICMP && in_pseudo_header {
        return;
    }
    // Only if the unfinished checksum is that of this header. The unfinished checksum of an inner packet stays: it does
    // not cover the changed bytes.
    let unfinished = p.frame.offload().csum.is_some_and(|csum| Some(csum.start) == offsets.l4);
    if unfinished && !in_pseudo_header {
        return;
    }
    let field = field_at(&offsets).and_then(|at| p.frame.bytes_mut().get_mut(at..)?.first_chunk_mut::<2>());
    let Some(field) = field else { return };
    let old = u16::from_be_bytes(*field);
    let is_udp = offsets.proto == ipproto::UDP;
    if is_udp && old == 0 && !unfinished {
        return;
    }
    let sum = if unfinished { !old } else { old };
    let sum = match *change {
        Change::Address4(from, to) => update32(sum, from, to),
        Change::Address6(from, to) => update128(sum, from, to),
        Change::Word(from, to) => update16(sum, from, to),
    };
    let new = match sum {
        _ if unfinished => !sum,
        0 if is_udp => 0xffff,
        _ => sum,
    };
    *field = new.to_be_bytes();
}

/// Returns the transport header and its payload, without padding; empty if there is none.
pub fn header_and_payload(p: &mut Packet) -> &mut [u8] {
    let offsets = p.offsets();
    let l4 = offsets.l4.map_or(0, usize::from);
    p.frame.bytes_mut().get_mut(l4..l4 + offsets.l4_len()).unwrap_or_default()
}

/// Writes a 16-bit word of the transport header and updates its checksum.
pub fn write_word(p: &mut Packet, offset: usize, value: u16, mask: u16) {
    let word = header_and_payload(p).get_mut(offset..).and_then(|b| b.first_chunk_mut::<2>());
    let Some(word) = word else { return };
    let old = u16::from_be_bytes(*word);
    let new = old & !mask | value & mask;
    *word = new.to_be_bytes();
    if old != new {
        update_checksum(p, &Change::Word(old, new));
    }
}

/// Writes the ports of TCP or UDP. A packet that ends within its header is not changed.
pub fn set_ports(p: &mut Packet, proto: u8, m: &Masked<PortsKey>) {
    if p.offsets().proto != proto {
        return;
    }
    let header = header_and_payload(p);
    let whole =
        if proto == ipproto::TCP { Tcp::parse_checked(header).is_some() } else { header.len() >= Udp::LEN };
    if whole {
        write_word(p, 0, m.value.src, m.mask.src);
        write_word(p, 2, m.value.dst, m.mask.dst);
    }
}

/// Writes the ports of SCTP, and updates the CRC, which covers the complete packet. A wrong CRC stays wrong by the
/// same bits, so that the receiver still detects the error.
pub fn set_sctp_ports(p: &mut Packet, m: &Masked<PortsKey>) {
    if p.offsets().proto != ipproto::SCTP {
        return;
    }
    let data = header_and_payload(p);
    if data.len() < 12 {
        return;
    }
    let word = |d: &[u8], at: usize| u32::from_le_bytes([d[at], d[at + 1], d[at + 2], d[at + 3]]);
    let in_packet = word(data, 8);
    data[8..12].fill(0);
    let right_before = cpu::crc32c(data);
    for (at, value, mask) in [(0, m.value.src, m.mask.src), (2, m.value.dst, m.mask.dst)] {
        let old = u16::from_be_bytes([data[at], data[at + 1]]);
        data[at..at + 2].copy_from_slice(&(old & !mask | value & mask).to_be_bytes());
    }
    let new = in_packet ^ right_before ^ cpu::crc32c(data);
    data[8..12].copy_from_slice(&new.to_le_bytes());
}
