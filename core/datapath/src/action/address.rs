//! IPv4, IPv6 and ARP fields.

use super::transport::{Change, update_checksum};
use crate::packet::Packet;
use dpif::{ArpKey, Ipv4Key, Ipv6Key, Masked};
use packet::checksum::{update16, update32};
use packet::ether::ethertype;

/// Writes fields of an IPv4 header, and the checksums that cover them.
pub fn set_ipv4(p: &mut Packet, m: &Masked<Ipv4Key>) {
    let offsets = p.offsets();
    if offsets.dl_type != ethertype::IPV4 {
        return;
    }
    let (v, k) = (&m.value, &m.mask);
    write_ipv4_address(p, IPV4_SRC, v.src, k.src);
    write_ipv4_address(p, IPV4_DST, v.dst, k.dst);
    let Some(ip) = header::<20>(p, offsets.l3) else { return };
    for (offset, value, mask) in [(1, v.tos, k.tos), (8, v.ttl, k.ttl)] {
        let word = offset & !1;
        let old = u16::from_be_bytes([ip[word], ip[word + 1]]);
        ip[offset] = ip[offset] & !mask | value & mask;
        let new = u16::from_be_bytes([ip[word], ip[word + 1]]);
        if new != old {
            let sum = update16(u16::from_be_bytes([ip[10], ip[11]]), old, new);
            ip[10..12].copy_from_slice(&sum.to_be_bytes());
        }
    }
}

/// Offset of the source address in an IPv4 header.
pub(super) const IPV4_SRC: usize = 12;
/// Offset of the destination address in an IPv4 header.
pub(super) const IPV4_DST: usize = 16;
/// Offset of the source address in an IPv6 header.
pub(super) const IPV6_SRC: usize = 8;
/// Offset of the destination address in an IPv6 header.
pub(super) const IPV6_DST: usize = 24;

/// Writes an address of an IPv4 packet, and the checksums that cover it.
pub(super) fn write_ipv4_address(p: &mut Packet, offset: usize, value: u32, mask: u32) {
    let at = p.offsets().l3;
    let Some(ip) = header::<20>(p, at) else { return };
    let old = u32::from_be_bytes([ip[offset], ip[offset + 1], ip[offset + 2], ip[offset + 3]]);
    let new = old & !mask | value & mask;
    if new != old {
        ip[offset..offset + 4].copy_from_slice(&new.to_be_bytes());
        let sum = update32(u16::from_be_bytes([ip[10], ip[11]]), old, new);
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        update_checksum(p, &Change::Address4(old, new));
    }
}

/// Writes an address of an IPv6 packet, and the transport checksum. With a routing header, the checksum covers the
/// final destination (RFC 8200 §8.1), so writing the destination address does not change the checksum.
pub(super) fn write_ipv6_address(p: &mut Packet, offset: usize, value: &[u8; 16], mask: &[u8; 16]) {
    let offsets = p.offsets();
    let Some(ip) = header::<40>(p, offsets.l3) else { return };
    let mut old = [0; 16];
    old.copy_from_slice(&ip[offset..offset + 16]);
    let new: [u8; 16] = std::array::from_fn(|i| old[i] & !mask[i] | value[i] & mask[i]);
    if new != old {
        ip[offset..offset + 16].copy_from_slice(&new);
        if offset != IPV6_DST || !offsets.routed {
            update_checksum(p, &Change::Address6(&old, &new));
        }
    }
}

/// Writes fields of an IPv6 header, and the transport checksum.
pub fn set_ipv6(p: &mut Packet, m: &Masked<Ipv6Key>) {
    let offsets = p.offsets();
    if offsets.dl_type != ethertype::IPV6 {
        return;
    }
    let (v, k) = (&m.value, &m.mask);
    write_ipv6_address(p, IPV6_SRC, &v.src, &k.src);
    write_ipv6_address(p, IPV6_DST, &v.dst, &k.dst);
    let Some(ip) = header::<40>(p, offsets.l3) else { return };
    let word = |label: u32, tclass: u8| label & 0xf_ffff | u32::from(tclass) << 20;
    let mask = word(k.label, k.tclass);
    let first = u32::from_be_bytes([ip[0], ip[1], ip[2], ip[3]]) & !mask | word(v.label, v.tclass) & mask;
    ip[..4].copy_from_slice(&first.to_be_bytes());
    ip[7] = ip[7] & !k.hlimit | v.hlimit & k.hlimit;
}

/// Writes fields of an ARP packet. If the packet is truncated, only fields that it contains are written.
pub fn set_arp(p: &mut Packet, m: &Masked<ArpKey>) {
    let offsets = p.offsets();
    if !ethertype::is_arp(offsets.dl_type) {
        return;
    }
    let (v, k) = (&m.value, &m.mask);
    let at = usize::from(offsets.l3);
    let mut write = |field: usize, value: &[u8], mask: &[u8]| {
        let bytes = p.frame.bytes_mut().get_mut(at + field..).unwrap_or_default();
        for ((b, v), m) in bytes.iter_mut().zip(value).zip(mask) {
            *b = *b & !m | v & m;
        }
    };
    write(6, &v.op.to_be_bytes(), &k.op.to_be_bytes());
    write(8, &v.sha.0, &k.sha.0);
    write(14, &v.sip.to_be_bytes(), &k.sip.to_be_bytes());
    write(18, &v.tha.0, &k.tha.0);
    write(24, &v.tip.to_be_bytes(), &k.tip.to_be_bytes());
}

fn header<const N: usize>(p: &mut Packet, at: u16) -> Option<&mut [u8; N]> {
    p.frame.bytes_mut().get_mut(usize::from(at)..)?.first_chunk_mut::<N>()
}
