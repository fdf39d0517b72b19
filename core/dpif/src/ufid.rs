//! The unique identifier of a datapath flow: a 128-bit hash of its masked key and its mask.
//!
//! It is a name, not a defence: two flows with one ufid would be an accident of probability 2^-64 at a billion flows.
//! The seed differs from boot to boot (an argument, since this crate has no randomness).

use flow::Flow;
use units::Ufid;

/// The ufid of the flow `key & mask`.
pub fn ufid_of(key: &Flow, mask: &Flow, seed: u64) -> Ufid {
    let mut a = seed ^ 0x9e37_79b9_7f4a_7c15;
    let mut b = seed.rotate_left(32) ^ 0xc2b2_ae3d_27d4_eb4f;
    // A mask has few words with a bit in them. Which ones they are counts too.
    let looked_at = key.words().iter().zip(mask.words()).enumerate().filter(|(_, (_, m))| **m != 0);
    for (i, (k, m)) in looked_at {
        a = mix(a ^ (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (k & m));
        b = mix(b.wrapping_add(*m) ^ a);
    }
    Ufid(u128::from(mix(a ^ b)) << 64 | u128::from(mix(b)))
}

/// A bijection of 64 bits in which every input bit reaches every output bit (Steele et al., SplitMix64).
fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_masked_bits_count_and_the_mask_does() {
        let mut key = Flow { in_port: 3, nw_src: 0x0a00_0001, ..Flow::ZERO };
        let mask = Flow { in_port: u32::MAX, ..Flow::ZERO };
        let first = ufid_of(&key, &mask, 7);
        key.nw_src = 9;
        assert_eq!(ufid_of(&key, &mask, 7), first);
        assert_ne!(ufid_of(&key, &Flow { nw_src: u32::MAX, ..mask }, 7), first);
        assert_ne!(ufid_of(&key, &mask, 8), first);
    }

    #[test]
    fn no_two_fields_are_the_same() {
        let (mut flow, mut seen) = (Flow::ZERO, std::collections::BTreeSet::new());
        for i in 0..flow.words().len() {
            for value in [0, 1, 2, 3] {
                flow.words_mut()[i] = value;
                let key = flow;
                flow.words_mut()[i] = 3;
                assert!(seen.insert(ufid_of(&key, &flow, 7).0), "word {i}, value {value}");
            }
            flow.words_mut()[i] = 0;
        }
    }
}
