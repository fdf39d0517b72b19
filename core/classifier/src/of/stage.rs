//! The stages of a look-up: the order in which fields are examined.
//!
//! A look-up that fails in an early stage leaves the fields of later stages wildcarded. Metadata is nearly always matched
//! anyway, L2 addresses differ less between packets than L3 addresses, and L4 ports differ most.

use super::sparse::SparseMask;
use cpu::KeyedHash64;
use flow::{FLOW_WORDS, Flow};
use std::mem::offset_of;

/// Number of stages: metadata, L2, L3, L4.
pub const STAGES: usize = 4;

type Bytes = [u8; FLOW_WORDS * 8];

/// Sets the bytes `from..to` to `with`.
const fn fill(mut bytes: Bytes, from: usize, to: usize, with: u8) -> Bytes {
    let mut i = from;
    while i < to {
        bytes[i] = with;
        i += 1;
    }
    bytes
}

macro_rules! fields {
    ($base:expr, $with:expr; $($field:ident: $ty:ty),* $(,)?) => {{
        let mut bytes = $base;
        $( bytes = fill(bytes, offset_of!(Flow, $field), offset_of!(Flow, $field) + size_of::<$ty>(), $with); )*
        bytes
    }};
}

const L2: Bytes = fields!([0; FLOW_WORDS * 8], 0xff;
    dl_dst: flow::Mac, dl_src: flow::Mac, dl_type: u16,
    vlans: [flow::Vlan; flow::flow::VLANS_MAX], mpls_lse: [u32; flow::flow::MPLS_MAX]);
const L3: Bytes = fields!([0; FLOW_WORDS * 8], 0xff;
    nw_src: u32, nw_dst: u32, ct_nw_src: u32, ct_nw_dst: u32,
    ipv6_src: [u8; 16], ipv6_dst: [u8; 16], ct_ipv6_src: [u8; 16], ct_ipv6_dst: [u8; 16],
    ipv6_label: u32, nw_frag: u8, nw_tos: u8, nw_ttl: u8, nw_proto: u8);
const L4: Bytes = fields!([0; FLOW_WORDS * 8], 0xff;
    nsh: flow::Nsh, nd_target: [u8; 16], arp_sha: flow::Mac, arp_tha: flow::Mac, tcp_flags: u16, igmp_group_ip4: u32,
    tp_src: u16, tp_dst: u16, ct_tp_src: u16, ct_tp_dst: u16);

/// All fields that are in no later stage. So a new field of `Flow` that is in no list is at worst examined too early.
const METADATA: Bytes = {
    let mut bytes = [0xff; FLOW_WORDS * 8];
    let mut i = 0;
    while i < bytes.len() {
        if L2[i] | L3[i] | L4[i] != 0 {
            bytes[i] = 0;
        }
        i += 1;
    }
    bytes
};

/// The mask of each stage. Each bit of a flow is in exactly one mask.
static STAGE_MASKS: [[u64; FLOW_WORDS]; STAGES] = [
    zerocopy::transmute!(METADATA),
    zerocopy::transmute!(L2),
    zerocopy::transmute!(L3),
    zerocopy::transmute!(L4),
];

/// One stage of a mask: index and mask of each word.
#[derive(Debug)]
pub struct Stage {
    words: Box<[(u8, u64)]>,
}

impl Stage {
    /// Splits a mask into the stages in which it has bits. The mask without bits has one stage without words.
    pub fn split(mask: &SparseMask) -> Vec<Stage> {
        let mut out: Vec<Stage> = Vec::new();
        for stage in &STAGE_MASKS {
            let words: Box<[(u8, u64)]> =
                mask.iter().map(|(i, w)| (i as u8, w & stage[i])).filter(|(_, w)| *w != 0).collect();
            if !words.is_empty() {
                out.push(Stage { words });
            }
        }
        if out.is_empty() {
            out.push(Stage { words: Box::new([]) });
        }
        out
    }

    /// Continues `hash` over the bits of this stage.
    pub fn hash(&self, chain: &KeyedHash64, hash: u64, flow: &Flow) -> u64 {
        let words = flow.words();
        self.words.iter().fold(hash, |h, &(i, m)| chain.step(h, words[usize::from(i)] & m))
    }

    /// Adds the bits of this stage to a mask.
    pub fn add_mask_to(&self, wildcards: &mut Flow) {
        let words = wildcards.words_mut();
        for &(i, m) in &self.words {
            words[usize::from(i)] |= m;
        }
    }

    /// Returns whether this stage has a bit of `mask`.
    pub fn touches(&self, mask: &Flow) -> bool {
        let words = mask.words();
        self.words.iter().any(|&(i, m)| m & words[usize::from(i)] != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_are_a_partition() {
        for i in 0..FLOW_WORDS {
            let words: Vec<u64> = STAGE_MASKS.iter().map(|s| s[i]).collect();
            assert_eq!(words.iter().fold(0, |a, w| a | w), u64::MAX);
            assert_eq!(words.iter().map(|w| w.count_ones()).sum::<u32>(), 64);
        }
    }

    #[test]
    fn a_mask_is_split_by_layer() {
        let mask = Flow { in_port: u32::MAX, dl_type: 0xffff, tp_dst: 0xffff, nw_proto: 0xff, ..Flow::ZERO };
        let stages = Stage::split(&SparseMask::new(&mask));
        assert_eq!(stages.len(), 4);
        let mut back = Flow::ZERO;
        stages.iter().for_each(|s| s.add_mask_to(&mut back));
        assert_eq!(back, mask);
        assert_eq!(Stage::split(&SparseMask::new(&Flow::ZERO)).len(), 1);
    }
}
