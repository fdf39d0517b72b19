//! The unique identifier of a datapath flow: a 128-bit hash of its masked key and its mask.
//!
//! The probability that any two of a billion flows have the same ufid is below 2^-64. Packets determine the keys, so the hash has
//! secrets, which differ at each start of the switch.

use cpu::KeyedHash64;
use units::Ufid;

/// Computes ufids.
#[derive(Clone, Copy, Debug)]
pub struct Ufids([KeyedHash64; 2]);

impl Ufids {
    /// Derives the secrets from `seed`, which must be random.
    pub fn new(seed: u64) -> Ufids {
        Ufids([b"ufid-low", b"ufid-top"].map(|half| KeyedHash64::new(cpu::derive(seed, half))))
    }

    /// The ufid of a flow. `words`: index (below 128), value and mask of each word; words with mask 0 are ignored.
    pub fn of(&self, words: impl Iterator<Item = (usize, u64, u64)>) -> Ufid {
        let (mut hash, mut indices) = (self.0.map(|chain| chain.start()), 0u128);
        let add = |hash: [u64; 2], word: u64| [self.0[0].step(hash[0], word), self.0[1].step(hash[1], word)];
        // A mask has few non-zero words. The set of their indices is hashed last.
        for (index, value, mask) in words.filter(|(_, _, mask)| *mask != 0) {
            indices |= 1 << (index % 128);
            hash = add(add(hash, value & mask), mask);
        }
        let [low, high] = add(add(hash, indices as u64), (indices >> 64) as u64);
        Ufid(u128::from(high) << 64 | u128::from(low))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: usize = 40;

    fn of(key: &[u64; WORDS], mask: &[u64; WORDS], seed: u64) -> Ufid {
        Ufids::new(seed).of((0..WORDS).map(|i| (i, key[i], mask[i])))
    }

    #[test]
    fn the_ufid_depends_on_masked_bits_and_on_the_mask() {
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
    fn each_word_and_value_gives_another_ufid() {
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
