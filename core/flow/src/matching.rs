//! `Match`: the packets to which a rule applies.
//!
//! **Invariant**: bits of `flow` that are not in `mask` are zero, so that equal matches are equal structures.

use crate::field::{FieldId, VLAN_NONE};
use crate::flow::{FLOW_WORDS, Flow};

/// Values, and a mask of the bits that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Match {
    /// Values; zero where `mask` is zero.
    pub flow: Flow,
    /// Mask of the matched bits.
    pub mask: Flow,
}

impl Default for Match {
    fn default() -> Match {
        Match::CATCHALL
    }
}

impl Match {
    /// Matches every packet.
    pub const CATCHALL: Match = Match { flow: Flow::ZERO, mask: Flow::ZERO };

    /// Matches packets that equal `flow` in the bits of `mask`.
    pub fn new(flow: &Flow, mask: &Flow) -> Match {
        Match { flow: flow.masked(mask), mask: *mask }
    }

    /// Returns whether the match contains every packet.
    pub fn is_catchall(&self) -> bool {
        self.mask == Flow::ZERO
    }

    /// Returns whether packets of this flow match.
    pub fn matches(&self, flow: &Flow) -> bool {
        self.flow.equal_under(flow, &self.mask)
    }

    /// Value and mask of a field.
    pub fn get(&self, field: FieldId) -> (u128, u128) {
        (field.get(&self.flow), field.mask_of(&self.mask))
    }

    /// The words of a flow in which a bit is matched, as a bit set. Used to skip fields that are not matched
    /// ([`FieldId::words`]).
    pub fn words(&self) -> u128 {
        let bits = |words: &[u64]| {
            words.iter().enumerate().fold(0, |all, (i, word)| all | u64::from(*word != 0) << i)
        };
        let (low, high) = self.mask.words().split_at(64);
        u128::from(bits(low)) | u128::from(bits(high)) << 64
    }

    /// Matches all bits of the field.
    pub fn set(&mut self, field: FieldId, value: u128) {
        self.set_masked(field, value, u128::MAX);
    }

    /// Matches the bits of the field that are set in `mask`; if there are none, the field is no longer matched.
    pub fn set_masked(&mut self, field: FieldId, value: u128, mask: u128) {
        if field == FieldId::DlVlan && value == VLAN_NONE {
            return self.set(FieldId::VlanTci, 0);
        }
        if mask & field.ones() == 0 {
            return self.wildcard(field);
        }
        field.set_mask(&mut self.mask, mask);
        field.set_without_tpid(&mut self.flow, value);
        self.mask_values(field);
    }

    /// Removes the match on the field. For a VLAN field, the match on the presence of the tag is removed as well if no other
    /// bit of the tag is matched.
    pub fn wildcard(&mut self, field: FieldId) {
        field.set_mask(&mut self.mask, 0);
        let tci = &mut self.mask.vlans[0].tci;
        let vlan = matches!(
            field,
            FieldId::DlVlan | FieldId::VlanVid | FieldId::DlVlanPcp | FieldId::VlanPcp | FieldId::VlanTci
        );
        if vlan && *tci & !crate::flow::VLAN_CFI == 0 {
            *tci = 0;
        }
        self.mask_values(field);
    }

    /// Restores the invariant after a change of this field: clears the values outside the mask.
    fn mask_values(&mut self, field: FieldId) {
        let mut words = field.possible_words();
        let (values, masks) = (self.flow.words_mut(), self.mask.words());
        while words != 0 {
            let at = words.trailing_zeros() as usize;
            let (Some(value), Some(mask)) = (values.get_mut(at), masks.get(at)) else { return };
            *value &= mask;
            words &= words - 1;
        }
    }

    /// Returns whether this match contains all packets of `other`.
    pub fn covers(&self, other: &Match) -> bool {
        let is_covered = |(a, b): (&u64, &u64)| a & !b == 0;
        self.mask.words().iter().zip(other.mask.words()).all(is_covered) && self.matches(&other.flow)
    }

    /// Returns whether both may match the same packet.
    pub fn overlaps(&self, other: &Match) -> bool {
        self.flow.equal_under(&other.flow, &self.mask.masked(&other.mask))
    }
}

/// A match that stores only the words in which its mask has bits, for rules in tables.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MiniMatch {
    words: Box<[MiniWord]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct MiniWord {
    index: u16,
    mask: u64,
    value: u64,
}

impl MiniMatch {
    /// Returns whether packets of this flow match.
    pub fn matches(&self, flow: &Flow) -> bool {
        let words = flow.words();
        self.words.iter().all(|w| (words[usize::from(w.index)] ^ w.value) & w.mask == 0)
    }

    /// The matched words in order: index, mask, value.
    pub fn words(&self) -> impl Iterator<Item = (usize, u64, u64)> + '_ {
        self.words.iter().map(|w| (usize::from(w.index), w.mask, w.value))
    }

    /// Returns whether the match contains every packet.
    pub fn is_catchall(&self) -> bool {
        self.words.is_empty()
    }
}

impl From<&Match> for MiniMatch {
    fn from(m: &Match) -> MiniMatch {
        let word = |i: usize| {
            let (mask, value) = (m.mask.words()[i], m.flow.words()[i]);
            (mask != 0).then_some(MiniWord { index: i as u16, mask, value })
        };
        MiniMatch { words: (0..FLOW_WORDS).filter_map(word).collect() }
    }
}

impl From<&MiniMatch> for Match {
    fn from(mini: &MiniMatch) -> Match {
        let mut m = Match::CATCHALL;
        for w in &mini.words {
            m.mask.words_mut()[usize::from(w.index)] = w.mask;
            m.flow.words_mut()[usize::from(w.index)] = w.value;
        }
        m
    }
}
