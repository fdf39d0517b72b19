//! Hashes over fields of a flow, for `multipath`, `bundle` and select groups.
//!
//! The choice of fields is that of `enum nx_hash_fields`; "symmetric" hashes are equal for both directions of a
//! connection. The mixing is that of MurmurHash3 (public domain).

use flow::flow::frag;
use flow::{Flow, Mac, VLAN_CFI};
use openflow::action::HashFields;

/// Mixes a word in.
pub fn add(hash: u32, data: u32) -> u32 {
    let data = data.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593);
    (hash ^ data).rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64)
}

/// Spreads the bits.
pub fn finish(mut hash: u32) -> u32 {
    hash ^= hash >> 16;
    hash = hash.wrapping_mul(0x85eb_ca6b);
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(0xc2b2_ae35);
    hash ^ hash >> 16
}

/// Of two words.
pub fn of_two(a: u32, b: u32) -> u32 {
    finish(add(add(0, a), b))
}

fn add_u64(hash: u32, v: u64) -> u32 {
    add(add(hash, v as u32), (v >> 32) as u32)
}

fn add_u128(hash: u32, v: u128) -> u32 {
    add_u64(add_u64(hash, v as u64), (v >> 64) as u64)
}

fn v6(address: [u8; 16]) -> u128 {
    u128::from_be_bytes(address)
}

fn add_l2(flow: &Flow, hash: u32) -> u32 {
    let vids = flow.vlans.iter().fold(0, |x, v| x ^ v.tci & 0xfff);
    let hash = add_u64(hash, flow.dl_src.to_u64() ^ flow.dl_dst.to_u64());
    add(hash, u32::from(flow.dl_type) << 16 | u32::from(vids))
}

fn add_l3(flow: &Flow, hash: u32) -> u32 {
    match flow.dl_type {
        0x0800 => add(hash, flow.nw_src ^ flow.nw_dst),
        0x86dd => add_u128(hash, v6(flow.ipv6_src) ^ v6(flow.ipv6_dst)),
        _ => hash,
    }
}

fn add_l4(flow: &Flow, hash: u32, udp: bool) -> u32 {
    let hash = add(hash, u32::from(flow.nw_proto));
    let with_ports = matches!(flow.nw_proto, 6 | 132) || udp && flow.nw_proto == 17;
    if with_ports { add(hash, u32::from(flow.tp_src ^ flow.tp_dst)) } else { hash }
}

fn add_address(flow: &Flow, hash: u32, v4: u32, long: [u8; 16]) -> u32 {
    match flow.dl_type {
        0x0800 => add(hash, v4),
        0x86dd => add_u128(hash, v6(long)),
        _ => hash,
    }
}

/// The hash of a flow.
pub fn of_fields(flow: &Flow, fields: HashFields, basis: u32) -> u32 {
    let l3l4 = |udp| {
        if !flow.is_ip() {
            return add_l2(flow, basis);
        }
        let hash = add_l3(flow, basis);
        if flow.nw_frag == 0 { add_l4(flow, hash, udp) } else { add(hash, u32::from(flow.nw_proto)) }
    };
    finish(match fields {
        HashFields::EthSrc => add_u64(basis, flow.dl_src.to_u64()),
        HashFields::SymmetricL4 => {
            let hash = add_l3(flow, add_l2(flow, basis));
            if flow.is_ip() { add_l4(flow, hash, false) } else { hash }
        }
        HashFields::SymmetricL3L4 => l3l4(false),
        HashFields::SymmetricL3L4Udp => l3l4(true),
        HashFields::NwSrc => add_address(flow, basis, flow.nw_src, flow.ipv6_src),
        HashFields::NwDst => add_address(flow, basis, flow.nw_dst, flow.ipv6_dst),
        HashFields::SymmetricL3 => add_l3(flow, basis),
    })
}

/// Adds the fields that [`of_fields`] reads to a mask.
pub fn unwildcard(flow: &Flow, mask: &mut Flow, fields: HashFields) {
    let ports = |mask: &mut Flow| (mask.tp_src, mask.tp_dst) = (u16::MAX, u16::MAX);
    let (src, dst) = match fields {
        HashFields::EthSrc => {
            mask.dl_src = Mac::BROADCAST;
            (false, false)
        }
        HashFields::NwSrc => (true, false),
        HashFields::NwDst => (false, true),
        _ => (true, true),
    };
    if src {
        unwildcard_address(flow.dl_type, &mut mask.nw_src, &mut mask.ipv6_src);
    }
    if dst {
        unwildcard_address(flow.dl_type, &mut mask.nw_dst, &mut mask.ipv6_dst);
    }
    let l2 = match fields {
        HashFields::SymmetricL4 => true,
        HashFields::SymmetricL3L4 | HashFields::SymmetricL3L4Udp => !flow.is_ip(),
        _ => false,
    };
    if l2 {
        (mask.dl_src, mask.dl_dst) = (Mac::BROADCAST, Mac::BROADCAST);
        for tag in &mut mask.vlans {
            tag.tci |= 0xfff | VLAN_CFI;
        }
    }
    let l4 =
        matches!(fields, HashFields::SymmetricL4 | HashFields::SymmetricL3L4 | HashFields::SymmetricL3L4Udp);
    if l4 && flow.is_ip() {
        mask.nw_proto = 0xff;
        let known =
            matches!(flow.nw_proto, 6 | 132) || flow.nw_proto == 17 && fields == HashFields::SymmetricL3L4Udp;
        let whole = match fields {
            HashFields::SymmetricL4 => flow.nw_frag & frag::LATER == 0,
            _ => flow.nw_frag == 0,
        };
        if known && whole {
            ports(mask);
        }
    }
}

fn unwildcard_address(dl_type: u16, short: &mut u32, long: &mut [u8; 16]) {
    match dl_type {
        0x0800 => *short = u32::MAX,
        0x86dd => *long = [0xff; 16],
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYMMETRIC: [HashFields; 4] = [
        HashFields::SymmetricL3,
        HashFields::SymmetricL4,
        HashFields::SymmetricL3L4,
        HashFields::SymmetricL3L4Udp,
    ];

    #[test]
    fn both_directions_hash_alike() {
        let there =
            Flow { dl_type: 0x0800, nw_proto: 6, nw_src: 1, nw_dst: 2, tp_src: 3, tp_dst: 4, ..Flow::ZERO };
        let back = Flow { nw_src: 2, nw_dst: 1, tp_src: 4, tp_dst: 3, ..there };
        for fields in SYMMETRIC {
            assert_eq!(of_fields(&there, fields, 7), of_fields(&back, fields, 7));
            assert_ne!(of_fields(&there, fields, 7), of_fields(&there, fields, 8));
        }
    }

    #[test]
    fn the_mask_has_what_the_hash_reads() {
        let base = Flow { dl_type: 0x0800, nw_proto: 6, ..Flow::ZERO };
        for fields in SYMMETRIC.into_iter().chain([HashFields::EthSrc, HashFields::NwSrc, HashFields::NwDst])
        {
            let mut mask = Flow { dl_type: 0xffff, ..Flow::ZERO };
            unwildcard(&base, &mut mask, fields);
            let other = Flow { nw_src: 9, nw_dst: 8, tp_src: 7, dl_src: Mac([3; 6]), ..base };
            let differs = of_fields(&base, fields, 0) != of_fields(&other, fields, 0);
            assert_eq!(differs, !base.equal_under(&other, &mask), "{fields:?}");
        }
    }
}
