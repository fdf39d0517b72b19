//! Tracks which words of the walk's flow differ from the received packet.
//!
//! Every look-up needs the set of these words, and few words change between two look-ups. So the walk marks the words that
//! may have changed ([`ChangedWords::mark`]), and [`ChangedWords::update`] compares only the marked words. Code that cannot
//! tell which words it changes marks all words.
//!
//! **Invariant**: a word that has become different or equal is marked before the next update. Debug builds compare all
//! words at each update.

use flow::{FLOW_WORDS, FieldId, Flow};
use openflow::action::Action;

/// All words.
const ALL: u128 = u128::MAX;

/// The words of the flow that differ from the received packet, as a bit set.
#[derive(Debug)]
pub(crate) struct ChangedWords {
    /// The words that differed at the last update.
    words: u128,
    /// The words that may have changed since the last update.
    marked: u128,
}

impl ChangedWords {
    /// No word differs: the flow is a copy of the received packet.
    pub(crate) fn nothing() -> ChangedWords {
        ChangedWords { words: 0, marked: 0 }
    }

    /// Marks words that may have changed, or changed back.
    pub(crate) fn mark(&mut self, words: u128) {
        self.marked |= words;
    }

    /// Marks all words.
    pub(crate) fn mark_all(&mut self) {
        self.marked = ALL;
    }

    /// Compares the marked words, and returns the words that differ now.
    pub(crate) fn update(&mut self, before: &Flow, now: &Flow) -> u128 {
        let marked = std::mem::take(&mut self.marked);
        if marked == ALL {
            self.words = differences(before, now);
            return self.words;
        }
        self.words &= !marked;
        for (first, mut rest) in [(0, marked as u64), (64, (marked >> 64) as u64)] {
            let mut differ = 0;
            while rest != 0 {
                let bit = rest.trailing_zeros();
                let i = (first + bit as usize) % FLOW_WORDS;
                differ |= u64::from(before.words()[i] != now.words()[i]) << bit;
                rest &= rest - 1;
            }
            self.words |= u128::from(differ) << first;
        }
        debug_assert_eq!(self.words, differences(before, now), "a word changed without being marked");
        self.words
    }
}

/// The words in which two flows differ.
pub(crate) fn differences(a: &Flow, b: &Flow) -> u128 {
    let (a, b, mut set) = (a.words(), b.words(), 0);
    let differing: [u64; FLOW_WORDS] = std::array::from_fn(|i| a[i] ^ b[i]);
    flow::for_each_set_word(&differing, |at, _| set |= 1 << at);
    set
}

/// The words that an action itself may change, without the actions of a table that it looks up; `None`: any word.
pub(crate) fn may_change(action: &Action) -> Option<u128> {
    match action {
        Action::SetField { field, .. } => field.words(),
        Action::RegLoad { dst, .. } | Action::RegMove { dst, .. } | Action::StackPop(dst) => {
            dst.field.words()
        }
        Action::WriteMetadata { .. } => FieldId::Metadata.words(),
        Action::SetEthSrc(_) => FieldId::EthSrc.words(),
        Action::SetEthDst(_) => FieldId::EthDst.words(),
        Action::SetIpv4Src(_) => FieldId::Ipv4Src.words(),
        Action::SetIpv4Dst(_) => FieldId::Ipv4Dst.words(),
        Action::SetIpTtl(_) | Action::DecTtl { .. } => FieldId::IpTtl.words(),
        Action::StackPush(_) | Action::Resubmit { .. } | Action::GotoTable(_) | Action::Note(_) => Some(0),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_contain_every_changed_word() {
        for word in 0..FLOW_WORDS {
            let mut flow = Flow::ONES;
            flow.words_mut()[word] ^= 1 << 40;
            flow.words_mut()[FLOW_WORDS / 2] = 0;
            let both = 1u128 << word | 1 << (FLOW_WORDS / 2);
            assert_eq!(differences(&flow, &Flow::ONES), both);
        }
        assert_eq!(differences(&Flow::ZERO, &Flow::ZERO), 0);
    }

    #[test]
    fn marked_words_are_compared() {
        let (before, mut now, mut changed) = (Flow::ZERO, Flow::ZERO, ChangedWords::nothing());
        assert_eq!(changed.update(&before, &now), 0);
        let ttl = FieldId::IpTtl.words().unwrap();
        for (value, words) in [(64, ttl), (63, ttl), (0, 0)] {
            FieldId::IpTtl.set(&mut now, value);
            changed.mark(ttl);
            assert_eq!(changed.update(&before, &now), words);
        }
    }
}
