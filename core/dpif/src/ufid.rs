//! The unique identifier of a datapath flow: a 128-bit hash of its masked key and its mask.
//!
//! It is a name, not a defence: two flows with one ufid would be an accident of probability 2^-64 at a billion flows.
//! The seed differs from boot to boot (an argument, since this crate has no randomness).

use units::Ufid;

/// The ufid of a flow: of its words that are looked at, each with its place, its value and which bits of it count.
pub fn ufid_of(words: impl Iterator<Item = (usize, u64, u64)>, seed: u64) -> Ufid {
    let mut a = seed ^ 0x9e37_79b9_7f4a_7c15;
    let mut b = seed.rotate_left(32) ^ 0xc2b2_ae3d_27d4_eb4f;
    // A mask has few words with a bit in them. Which ones they are counts too.
    for (place, value, mask) in words.filter(|(_, _, mask)| *mask != 0) {
        a = mix(a ^ (place as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (value & mask));
        b = mix(b.wrapping_add(mask) ^ a);
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

    const WORDS: usize = 40;

    fn of(key: &[u64; WORDS], mask: &[u64; WORDS], seed: u64) -> Ufid {
        ufid_of((0..WORDS).map(|i| (i, key[i], mask[i])), seed)
    }

    #[test]
    fn only_masked_bits_count_and_the_mask_does() {
        let (mut key, mut mask) = ([0; WORDS], [0; WORDS]);
        (key[0], key[7], mask[0]) = (3, 0x0a00_0001, u64::MAX);
        let first = of(&key, &mask, 7);
        key[7] = 9;
        assert_eq!(of(&key, &mask, 7), first);
        assert_ne!(of(&key, &mask, 8), first);
        mask[7] = 0xff;
        assert_ne!(of(&key, &mask, 7), first);
    }

    #[test]
    fn no_two_places_are_the_same() {
        let mut seen = std::collections::BTreeSet::new();
        for i in 0..WORDS {
            for value in [0, 1, 2, 3] {
                let (mut key, mut mask) = ([0; WORDS], [0; WORDS]);
                (key[i], mask[i]) = (value, 3);
                assert!(seen.insert(of(&key, &mask, 7).0), "word {i}, value {value}");
            }
        }
    }
}
