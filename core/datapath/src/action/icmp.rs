//! ICMP and neighbour discovery (RFC 4861).

use super::transport::{header_and_payload, write_word};
use crate::packet::Packet;
use dpif::{IcmpKey, Masked, NdExtKey, NdKey};
use packet::{Icmp, ipproto};

/// Writes type and code.
pub fn set(p: &mut Packet, proto: u8, m: &Masked<IcmpKey>) {
    if p.offsets().proto == proto && header_and_payload(p).len() >= Icmp::LEN {
        let word = |k: &IcmpKey| u16::from_be_bytes([k.icmp_type, k.code]);
        write_word(p, 0, word(&m.value), word(&m.mask));
    }
}

/// Returns the offset of a neighbour message's target, and the offsets of the first source link-layer address option
/// and of the first target link-layer address option.
fn neighbour(p: &mut Packet) -> Option<(usize, [Option<usize>; 2])> {
    if p.offsets().proto != ipproto::ICMPV6 {
        return None;
    }
    let data = header_and_payload(p);
    if !matches!(data.first()?, 135 | 136) || data.len() < 24 {
        return None;
    }
    let (mut at, mut options) = (24, [None, None]);
    while let Some(&[kind, len, ..]) = data.get(at..).and_then(|o| o.first_chunk::<8>()) {
        if len == 0 || at + usize::from(len) * 8 > data.len() {
            break;
        }
        if let (1 | 2, 1) = (kind, len) {
            options[usize::from(kind) - 1].get_or_insert(at);
        }
        at += usize::from(len) * 8;
    }
    Some((8, options))
}

fn write(p: &mut Packet, at: usize, value: &[u8], mask: &[u8]) {
    let words = value.as_chunks::<2>().0.iter().zip(mask.as_chunks::<2>().0);
    for (i, (v, m)) in words.enumerate() {
        write_word(p, at + 2 * i, u16::from_be_bytes(*v), u16::from_be_bytes(*m));
    }
}

/// Writes the target, and the link-layer addresses if the message contains them.
pub fn set_nd(p: &mut Packet, m: &Masked<NdKey>) {
    let Some((target, [sll, tll])) = neighbour(p) else { return };
    write(p, target, &m.value.target, &m.mask.target);
    if let Some(at) = sll {
        write(p, at + 2, &m.value.sll.0, &m.mask.sll.0);
    }
    if let Some(at) = tll {
        write(p, at + 2, &m.value.tll.0, &m.mask.tll.0);
    }
}

/// Writes the reserved word, and the type of the first link-layer address option.
pub fn set_nd_ext(p: &mut Packet, m: &Masked<NdExtKey>) {
    let Some((_, options)) = neighbour(p) else { return };
    write(p, 4, &m.value.reserved.to_be_bytes(), &m.mask.reserved.to_be_bytes());
    if let Some(at) = options.into_iter().flatten().min() {
        write(p, at, &[m.value.options_type, 0], &[m.mask.options_type, 0]);
    }
}
