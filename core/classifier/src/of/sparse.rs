//! Masks and matches that store only the words with a matched bit.
//!
//! A full `Flow` has about 800 bytes, and a typical rule matches three words (24 bytes) of it. A table of a
//! million rules must not store the rest.
//!
//! **Invariant**: no stored mask word is zero. A match has one value for each word of its mask, and the value is zero
//! outside the mask.

use flow::{FLOW_WORDS, Flow};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

const _: () = assert!(FLOW_WORDS <= 128, "the bitmap of words is 128 bits wide");

/// The non-zero words of a mask.
#[derive(Clone, PartialEq, Eq)]
pub struct SparseMask {
    /// Bit set of the stored words.
    map: u128,
    words: Box<[u64]>,
    /// Hash of the mask.
    hash: u64,
}

impl SparseMask {
    /// The sparse form of a mask.
    pub fn new(mask: &Flow) -> SparseMask {
        let mut map = 0;
        let mut words = Vec::new();
        let mut hash = 0;
        for (i, &w) in mask.words().iter().enumerate().filter(|(_, w)| **w != 0) {
            map |= 1u128 << i;
            words.push(w);
            hash = mix(mix(hash, i as u64), w);
        }
        SparseMask { map, words: words.into_boxed_slice(), hash }
    }

    /// Returns whether this is the sparse form of `mask`.
    pub fn is_of(&self, mask: &Flow) -> bool {
        // The stored words are compared first, because most differences are there.
        let all = mask.words();
        self.iter().all(|(i, w)| all[i] == w) && all.iter().filter(|w| **w != 0).count() == self.words.len()
    }

    /// The stored words with their indices in a `Flow`.
    pub fn iter(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        Bits(self.map).zip(self.words.iter().copied())
    }

    /// The full form of the mask.
    pub fn expand(&self) -> Flow {
        let mut out = Flow::ZERO;
        for (i, w) in self.iter() {
            out.words_mut()[i] = w;
        }
        out
    }

    /// Returns whether no bit is matched.
    pub fn is_empty(&self) -> bool {
        self.map == 0
    }

    /// A hash of the mask.
    pub fn hash_value(&self) -> u64 {
        self.hash
    }

    /// Returns whether every bit of `other` is also in `self`.
    pub fn covers(&self, other: &SparseMask) -> bool {
        other.map & !self.map == 0 && other.iter().all(|(i, w)| w & !self.word(i) == 0)
    }

    /// The word at index `i` of a `Flow`.
    pub fn word(&self, i: usize) -> u64 {
        self.position(i).map_or(0, |at| self.words[at])
    }

    /// Index in `words` of the word at index `i` of a `Flow`.
    fn position(&self, i: usize) -> Option<usize> {
        let bit = 1u128 << i;
        (self.map & bit != 0).then(|| (self.map & (bit - 1)).count_ones() as usize)
    }
}

impl Hash for SparseMask {
    fn hash<H: Hasher>(&self, h: &mut H) {
        h.write_u64(self.hash);
    }
}

impl fmt::Debug for SparseMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// The match of a rule. Clones share the mask, and the values if they are not inline.
#[derive(Clone, PartialEq, Eq)]
pub struct SparseMatch {
    mask: Arc<SparseMask>,
    values: Values,
}

/// Maximum number of values that are stored inline; enough for most rules.
const INLINE_VALUES: usize = 4;

/// The values of a match, one for each word of its mask. **Invariant**: unused inline values are zero.
#[derive(Clone, PartialEq, Eq)]
enum Values {
    Inline(u8, [u64; INLINE_VALUES]),
    Shared(Arc<[u64]>),
}

impl Deref for Values {
    type Target = [u64];

    fn deref(&self) -> &[u64] {
        match self {
            Values::Inline(n, words) => &words[..usize::from(*n).min(INLINE_VALUES)],
            Values::Shared(words) => words,
        }
    }
}

impl FromIterator<u64> for Values {
    fn from_iter<I: IntoIterator<Item = u64>>(values: I) -> Values {
        let (mut n, mut inline) = (0, [0; INLINE_VALUES]);
        let mut values = values.into_iter();
        while n < INLINE_VALUES {
            let Some(value) = values.next() else { return Values::Inline(n as u8, inline) };
            inline[n] = value;
            n += 1;
        }
        match values.next() {
            None => Values::Inline(n as u8, inline),
            Some(fifth) => Values::Shared(inline.into_iter().chain([fifth]).chain(values).collect()),
        }
    }
}

impl SparseMatch {
    /// Makes a match from a flow and a mask.
    pub fn new(flow: &Flow, mask: &Flow) -> SparseMatch {
        SparseMatch::with_mask(flow, Arc::new(SparseMask::new(mask)))
    }

    /// Makes a match from a flow, with a shared mask.
    pub fn with_mask(flow: &Flow, mask: Arc<SparseMask>) -> SparseMatch {
        let words = flow.words();
        let values = mask.iter().map(|(i, m)| words[i] & m).collect();
        SparseMatch { mask, values }
    }

    /// The mask.
    pub fn mask(&self) -> &Arc<SparseMask> {
        &self.mask
    }

    /// Replaces the mask by an equal one, to share its memory.
    pub fn share_mask(&mut self, mask: &Arc<SparseMask>) {
        debug_assert_eq!(self.mask, *mask);
        self.mask = Arc::clone(mask);
    }

    /// The values as a full flow, zero outside the mask.
    pub fn expand_flow(&self) -> Flow {
        let mut out = Flow::ZERO;
        for (i, v) in self.values_iter() {
            out.words_mut()[i] = v;
        }
        out
    }

    /// Returns whether `flow` matches.
    pub fn matches(&self, flow: &Flow) -> bool {
        let words = flow.words();
        self.mask.iter().zip(self.values.iter()).all(|((i, m), v)| words[i] & m == *v)
    }

    /// Returns whether every flow that matches `self` also matches `other`: `self` is equal or more specific.
    pub fn within(&self, other: &SparseMatch) -> bool {
        self.mask.covers(&other.mask) && self.agrees(other)
    }

    /// Returns whether some flow can match both `self` and `other`.
    pub fn overlaps(&self, other: &SparseMatch) -> bool {
        self.agrees(other)
    }

    /// Returns whether `self` and `other` have equal values in the bits that both match.
    fn agrees(&self, other: &SparseMatch) -> bool {
        other.mask.iter().zip(other.values.iter()).all(|((i, om), ov)| match self.mask.position(i) {
            Some(at) => (self.values[at] ^ ov) & self.mask.words[at] & om == 0,
            None => true,
        })
    }

    fn values_iter(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        Bits(self.mask.map).zip(self.values.iter().copied())
    }
}

impl fmt::Debug for SparseMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map()
            .entries(self.mask.iter().zip(self.values.iter()).map(|((i, m), v)| (i, (v, m))))
            .finish()
    }
}

/// Iterates over the indices of the set bits.
struct Bits(u128);

impl Iterator for Bits {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        if self.0 == 0 {
            return None;
        }
        let i = self.0.trailing_zeros() as usize;
        self.0 &= self.0 - 1;
        Some(i)
    }
}

/// One step of a hash: a folded multiplication. All 64 bits of the result may be used. The hash has no secret.
pub(super) fn mix(hash: u64, word: u64) -> u64 {
    let p = u128::from(hash ^ word ^ 0x9e37_79b9_7f4a_7c15) * u128::from(0xa076_1d64_78bd_642fu64);
    (p as u64) ^ ((p >> 64) as u64).rotate_left(23)
}
