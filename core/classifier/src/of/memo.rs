//! Memo: results of earlier look-ups in a table, by the values of the bits that these look-ups examined.
//!
//! Packets of many flows are looked up in the same tables, and most tables examine few bits, which are equal for many
//! flows. By the rule of un-wildcarding, a flow that equals an earlier flow under the mask of the earlier look-up has the
//! same result. A hash over a few words finds this result, whereas a search visits many subtables. Only results of searches
//! that would examine the same bits again are stored, so that megaflows do not depend on which packet came first.
//!
//! A changed table starts with an empty memo. Entries are never replaced, so readers need no lock. If a table is looked up
//! with ever-changing values, the memo fills up: then each look-up probes the memo in vain, but the memo does not grow. So the
//! hash needs no secret: values with equal hashes do no more harm than many different values.

use super::sparse::mix;
use flow::{FLOW_WORDS, Flow};
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

/// Maximum number of masks.
const MASKS_MAX: usize = 3;
/// Number of slots per mask. The hash of a value selects two slots, and the result may be in either.
const SLOTS: usize = 128;
/// Maximum number of words of a mask.
const WORDS_MAX: usize = 8;
/// Maximum number of searches that collect the examined bits in a separate mask, so that the result can be
/// stored. Such a search is slower than one that adds the bits to the caller's mask.
const SEARCHES_MAX: u32 = 256;

/// The memo of one table.
pub(super) struct Memo<R> {
    masks: [OnceLock<MaskEntries<R>>; MASKS_MAX],
    searches: AtomicU32,
}

/// The results of the look-ups that examined the same bits.
struct MaskEntries<R> {
    /// The examined bits: index and mask of each word.
    words: Vec<(u8, u64)>,
    slots: Box<[OnceLock<Box<Entry<R>>>]>,
}

/// The network protocol, which determines which prefix tries are used, and the values of the words under a mask.
type Values = [u64; 1 + WORDS_MAX];

struct Entry<R> {
    values: Values,
    rule: Option<Arc<R>>,
}

impl<R> Entry<R> {
    /// Returns whether the entry has these values; `words`: how many of them are used. Has no branches, because it compares few
    /// words.
    fn has_values(&self, values: &Values, words: usize) -> bool {
        let both = self.values.iter().zip(values).take(1 + words);
        both.fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
    }
}

/// Result of a look-up in the memo.
pub(super) enum MemoResult<'a, R> {
    /// The result of an earlier look-up. Its examined bits have been added to the mask.
    Found(Option<&'a Arc<R>>),
    /// There is no result, and the result of a search can be stored.
    Miss,
    /// There is no result, and no more can be stored.
    Full,
}

impl<R> Default for Memo<R> {
    fn default() -> Self {
        Memo { masks: [const { OnceLock::new() }; MASKS_MAX], searches: AtomicU32::new(0) }
    }
}

impl<R> fmt::Debug for Memo<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Memo")
    }
}

impl<R> MaskEntries<R> {
    fn new(words: &[(u8, u64)]) -> Self {
        let slots = std::iter::repeat_with(OnceLock::new).take(SLOTS).collect();
        MaskEntries { words: words.to_vec(), slots }
    }

    /// The flow's values under the mask, and the two slots that they select.
    fn slots(&self, flow: &Flow) -> (Values, [&OnceLock<Box<Entry<R>>>; 2]) {
        let (words, mut values) = (flow.words(), [0; 1 + WORDS_MAX]);
        values[0] = flow.network_type().into();
        let mut hash = values[0];
        for (value, &(i, mask)) in values[1..].iter_mut().zip(&self.words) {
            *value = words[usize::from(i)] & mask;
            hash = mix(hash, *value);
        }
        (values, [hash, hash >> 32].map(|hash| &self.slots[hash as usize % SLOTS]))
    }
}

impl<R> Memo<R> {
    /// Finds the result of an earlier flow with the same values.
    pub(super) fn get(&self, flow: &Flow, wildcards: &mut Flow) -> MemoResult<'_, R> {
        let mut has_space = self.masks[0].get().is_none();
        for mask in self.masks.iter().map_while(OnceLock::get) {
            let (values, slots) = mask.slots(flow);
            for slot in slots {
                match slot.get() {
                    None => has_space = true,
                    Some(entry) if entry.has_values(&values, mask.words.len()) => {
                        let words = wildcards.words_mut();
                        mask.words.iter().for_each(|&(i, bits)| words[usize::from(i)] |= bits);
                        return MemoResult::Found(entry.rule.as_ref());
                    }
                    Some(_) => {}
                }
            }
        }
        if has_space && self.searches.load(Relaxed) < SEARCHES_MAX {
            MemoResult::Miss
        } else {
            MemoResult::Full
        }
    }

    /// Stores the result of a search that examined exactly the bits of `mask`.
    pub(super) fn store(&self, flow: &Flow, mask: &Flow, rule: Option<&Arc<R>>) {
        self.searches.fetch_add(1, Relaxed);
        let examined = mask.words().iter().enumerate().filter(|(_, word)| **word != 0);
        let (mut words, mut n) = ([(0, 0); WORDS_MAX], 0);
        for (i, word) in examined {
            let Some(slot) = words.get_mut(n) else { return };
            *slot = (i as u8, *word);
            n += 1;
        }
        let words = &words[..n];
        for mask in &self.masks {
            let mask = mask.get_or_init(|| MaskEntries::new(words));
            if mask.words == words {
                let (values, slots) = mask.slots(flow);
                if let Some(free) = slots.into_iter().find(|slot| slot.get().is_none()) {
                    // Another thread may have filled the slot meanwhile.
                    let _ = free.set(Box::new(Entry { values, rule: rule.cloned() }));
                }
                return;
            }
        }
    }

    /// Counts a search whose result is not stored, because an equal flow might get another mask.
    pub(super) fn count_unstorable(&self) {
        self.searches.fetch_add(1, Relaxed);
    }
}

const _: () = assert!(FLOW_WORDS <= 256, "the index of a word fits into a byte");
