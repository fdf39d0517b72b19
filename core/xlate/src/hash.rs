//! Hashes over fields of a flow, for `multipath`, `bundle` and select groups.
//!
//! Which fields are hashed is defined by `enum nx_hash_fields`. "Symmetric" hashes are equal for both directions of a
//! connection. Controllers can see which link a flow uses and may rely on it, so the hashes are those of Open vSwitch, over
//! the same bytes: lookup3 (`packet::lookup3`) and MurmurHash3 (`packet::murmur`).

use crate::packet_type::ETHERNET;
use flow::{Flow, Mac, VLAN_CFI};
use openflow::action::HashFields;
use packet::lookup3::lookup3;
use packet::murmur::{add, finish, words};

/// Hash of two words.
pub fn of_two(a: u32, b: u32) -> u32 {
    finish(add(add(a, 0), b), 8)
}

/// The XOR of the two Ethernet addresses, which is equal for both directions, and the XOR of the VLAN ids.
fn layer2(flow: &Flow) -> ([u8; 6], u16) {
    let vids = flow.vlans.iter().fold(0, |x, v| x ^ v.tci & 0xfff);
    (std::array::from_fn(|i| flow.dl_src.0[i] ^ flow.dl_dst.0[i]), vids)
}

/// The XOR of the two IP addresses: 4 bytes for IPv4, 16 for IPv6, otherwise none.
fn layer3(flow: &Flow) -> Vec<u8> {
    match flow.dl_type {
        0x0800 => (flow.nw_src ^ flow.nw_dst).to_be_bytes().to_vec(),
        0x86dd => flow.ipv6_src.iter().zip(flow.ipv6_dst).map(|(a, b)| a ^ b).collect(),
        _ => Vec::new(),
    }
}

/// The XOR of the two ports, if the ports of this protocol are hashed. `udp`: UDP ports are hashed as well.
fn ports(flow: &Flow, udp: bool) -> Option<[u8; 2]> {
    let hashed = matches!(flow.nw_proto, 6 | 132) || udp && flow.nw_proto == 17;
    hashed.then(|| (flow.tp_src ^ flow.tp_dst).to_be_bytes())
}

fn symmetric_l4(flow: &Flow, basis: u32) -> u32 {
    let (macs, vids) = layer2(flow);
    let mut bytes = layer3(flow);
    bytes.resize(16, 0);
    bytes.extend(flow.dl_type.to_be_bytes());
    bytes.extend(vids.to_be_bytes());
    bytes.extend(if flow.is_ip() { ports(flow, false).unwrap_or_default() } else { [0; 2] });
    bytes.extend(macs);
    bytes.push(if flow.is_ip() { flow.nw_proto } else { 0 });
    bytes.resize(32, 0);
    lookup3(&bytes, basis)
}

fn symmetric_l3(flow: &Flow, basis: u32) -> u32 {
    let mut bytes = layer3(flow);
    bytes.resize(16, 0);
    bytes.extend(flow.dl_type.to_be_bytes());
    bytes.resize(20, 0);
    lookup3(&bytes, basis)
}

fn symmetric_l3l4(flow: &Flow, basis: u32, udp: bool) -> u32 {
    if !flow.is_ip() {
        return symmetric_l2(flow, basis);
    }
    let mut hash = add(words(&layer3(flow)).fold(basis, add), flow.nw_proto.into());
    if let Some(ports) = ports(flow, udp).filter(|_| flow.nw_frag == 0) {
        hash = words(&ports).fold(hash, add);
    }
    finish(hash, basis)
}

fn symmetric_l2(flow: &Flow, basis: u32) -> u32 {
    if flow.packet_type != ETHERNET {
        return 0;
    }
    let (macs, vids) = layer2(flow);
    let bytes = [&flow.dl_type.to_be_bytes()[..], &vids.to_be_bytes(), &macs, &[0; 2]].concat();
    finish(words(&bytes).fold(basis, add), basis)
}

fn address(flow: &Flow, short: u32, long: &[u8; 16], basis: u32) -> u32 {
    match flow.dl_type {
        0x0800 => lookup3(&short.to_be_bytes(), basis),
        0x86dd => lookup3(long, basis),
        _ => basis,
    }
}

/// The hash of the selected fields of a flow.
pub fn of_fields(flow: &Flow, fields: HashFields, basis: u32) -> u32 {
    match fields {
        HashFields::EthSrc => lookup3(&flow.dl_src.0, basis),
        HashFields::SymmetricL4 => symmetric_l4(flow, basis),
        HashFields::SymmetricL3L4 => symmetric_l3l4(flow, basis, false),
        HashFields::SymmetricL3L4Udp => symmetric_l3l4(flow, basis, true),
        HashFields::NwSrc => address(flow, flow.nw_src, &flow.ipv6_src, basis),
        HashFields::NwDst => address(flow, flow.nw_dst, &flow.ipv6_dst, basis),
        HashFields::SymmetricL3 => symmetric_l3(flow, basis),
    }
}

/// Adds the fields that [`of_fields`] reads to a mask, except `packet_type`, `dl_type` and `nw_frag`, which every megaflow matches.
pub fn unwildcard(flow: &Flow, mask: &mut Flow, fields: HashFields) {
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
        match (fields, flow.nw_proto) {
            (HashFields::SymmetricL4, 17) => {}
            // Type and code have eight bits, even if more bits were matched before.
            (HashFields::SymmetricL4, 1) => (mask.tp_src, mask.tp_dst) = (0xff, 0xff),
            // For some protocols the hash does not read the ports. They are matched so that megaflows equal those of Open vSwitch.
            (HashFields::SymmetricL4, _) => (mask.tp_src, mask.tp_dst) = (u16::MAX, u16::MAX),
            _ if ports(flow, fields == HashFields::SymmetricL3L4Udp).is_some() && flow.nw_frag == 0 => {
                (mask.tp_src, mask.tp_dst) = (u16::MAX, u16::MAX);
            }
            _ => {}
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
    fn type_and_code_are_eight_bits_wide() {
        let flow = Flow { dl_type: 0x0800, nw_proto: 1, ..Flow::ZERO };
        let mut mask = Flow { tp_src: 0xffff, ..Flow::ZERO };
        unwildcard(&flow, &mut mask, HashFields::SymmetricL4);
        assert_eq!((mask.tp_src, mask.tp_dst), (0xff, 0xff));
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
