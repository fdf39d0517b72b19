//! The `hash` action: `dp_hash` from addresses, protocol and ports.
//!
//! Zero means "not hashed", so it is never the result. The values differ from Open vSwitch's; only their distribution
//! and the symmetry are promised.

use crate::packet::Packet;
use cpu::mix32;
use flow::Flow;

/// Computes the hash of one packet.
pub fn hash(p: &mut Packet, symmetric: bool, basis: u32) {
    let hash = hash_flow(&p.flow(), symmetric, basis);
    p.meta.dp_hash = hash.max(1);
}

fn hash_flow(f: &Flow, symmetric: bool, basis: u32) -> u32 {
    let ends = |port: u16, v4: u32, v6: &[u8; 16]| {
        let words = v6.as_chunks::<4>().0.iter().map(|w| u32::from_be_bytes(*w));
        let hash = words.fold(mix32(basis, v4), mix32);
        mix32(hash, u32::from(port))
    };
    let src = ends(f.tp_src, f.nw_src, &f.ipv6_src);
    let dst = ends(f.tp_dst, f.nw_dst, &f.ipv6_dst);
    let both = if symmetric { src ^ dst } else { mix32(src, dst) };
    mix32(both, u32::from(f.nw_proto) << 16 | u32::from(f.dl_type))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symmetric_is_the_same_both_ways() {
        let there = Flow { nw_src: 1, nw_dst: 2, tp_src: 3, tp_dst: 4, nw_proto: 6, ..Flow::ZERO };
        let back = Flow { nw_src: 2, nw_dst: 1, tp_src: 4, tp_dst: 3, nw_proto: 6, ..Flow::ZERO };
        assert_eq!(hash_flow(&there, true, 5), hash_flow(&back, true, 5));
        assert_ne!(hash_flow(&there, false, 5), hash_flow(&back, false, 5));
        assert_ne!(hash_flow(&there, true, 5), hash_flow(&there, true, 6));
    }
}
