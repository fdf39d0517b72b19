//! Memo: results of recent look-ups in a table, by the bits that decided them.
//!
//! Packets of many flows pass the same tables, and most tables examine few bits, which are the same for many flows.
//! By the rule of un-wildcarding, a flow that equals an earlier one under the mask of that look-up has the same
//! result. A hash over a few words finds this result, whereas a search visits every subtable. Only searches that
//! would examine the same bits again are stored, so that megaflows do not depend on which packet came first.
//!
//! A changed table starts with an empty memo. Entries are never replaced, so readers need no lock. A table that is
//! looked up with ever-changing values costs one more probe, and no more memory. So the hash needs no secret:
//! colliding values have no more effect than many different values.

use super::sparse::mix;
use flow::{FLOW_WORDS, Flow};
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

/// Maximum number of masks.
const MASKS: usize = 3;
/// Number of entries per mask; each result may be in one of two places.
const PLACES: usize = 128;
/// Maximum number of words of a mask.
const WORDS: usize = 8;
/// Maximum number of searches that are made for storing: such a search is slower.
const SEARCHES_MAX: u32 = 256;

/// The memo of one table.
pub(super) struct Memo<R> {
    masks: [OnceLock<OneMask<R>>; MASKS],
    searches: AtomicU32,
}

struct OneMask<R> {
    words: Vec<(u8, u64)>,
    places: Box<[OnceLock<Box<Entry<R>>>]>,
}

/// The network protocol, which decides which prefixes are used, and the values under a mask.
type Values = [u64; 1 + WORDS];

struct Entry<R> {
    values: Values,
    rule: Option<Arc<R>>,
}

impl<R> Entry<R> {
    /// Compares a few words without a function call.
    fn is_of(&self, values: &Values, words: usize) -> bool {
        let both = self.values.iter().zip(values).take(1 + words);
        both.fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
    }
}

/// Result of looking in the memo.
pub(super) enum Recalled<'a, R> {
    /// The result of the look-up; its mask has been added.
    Found(Option<&'a Arc<R>>),
    /// Not found, and it can be stored.
    Storable,
    /// Not found.
    Missing,
}

impl<R> Default for Memo<R> {
    fn default() -> Self {
        Memo { masks: [const { OnceLock::new() }; MASKS], searches: AtomicU32::new(0) }
    }
}

impl<R> fmt::Debug for Memo<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Memo")
    }
}

impl<R> OneMask<R> {
    fn new(words: &[(u8, u64)]) -> Self {
        let places = std::iter::repeat_with(OnceLock::new).take(PLACES).collect();
        OneMask { words: words.to_vec(), places }
    }

    /// The flow's values under the mask, and their two places.
    fn places(&self, flow: &Flow) -> (Values, [&OnceLock<Box<Entry<R>>>; 2]) {
        let (words, mut values) = (flow.words(), [0; 1 + WORDS]);
        values[0] = flow.network_type().into();
        let mut hash = values[0];
        for (value, &(i, mask)) in values[1..].iter_mut().zip(&self.words) {
            *value = words[usize::from(i)] & mask;
            hash = mix(hash, *value);
        }
        (values, [hash, hash >> 32].map(|hash| &self.places[hash as usize % PLACES]))
    }
}

impl<R> Memo<R> {
    /// Finds the result of an equal flow.
    pub(super) fn get(&self, flow: &Flow, wildcards: &mut Flow) -> Recalled<'_, R> {
        let mut room = self.masks[0].get().is_none();
        for mask in self.masks.iter().map_while(OnceLock::get) {
            let (values, places) = mask.places(flow);
            for place in places {
                match place.get() {
                    None => room = true,
                    Some(entry) if entry.is_of(&values, mask.words.len()) => {
                        let words = wildcards.words_mut();
                        mask.words.iter().for_each(|&(i, bits)| words[usize::from(i)] |= bits);
                        return Recalled::Found(entry.rule.as_ref());
                    }
                    Some(_) => {}
                }
            }
        }
        if room && self.searches.load(Relaxed) < SEARCHES_MAX {
            Recalled::Storable
        } else {
            Recalled::Missing
        }
    }

    /// Stores the result of a search that examined exactly the bits of `mask`.
    pub(super) fn store(&self, flow: &Flow, mask: &Flow, rule: Option<&Arc<R>>) {
        self.searches.fetch_add(1, Relaxed);
        let examined = mask.words().iter().enumerate().filter(|(_, word)| **word != 0);
        let (mut words, mut n) = ([(0, 0); WORDS], 0);
        for (i, word) in examined {
            let Some(place) = words.get_mut(n) else { return };
            *place = (i as u8, *word);
            n += 1;
        }
        let words = &words[..n];
        for mask in &self.masks {
            let mask = mask.get_or_init(|| OneMask::new(words));
            if mask.words == words {
                let (values, places) = mask.places(flow);
                if let Some(free) = places.into_iter().find(|place| place.get().is_none()) {
                    // Another thread may have stored it meanwhile.
                    let _ = free.set(Box::new(Entry { values, rule: rule.cloned() }));
                }
                return;
            }
        }
    }

    /// Counts a search for storing whose mask is not the only right one, so that its result is not stored.
    pub(super) fn count_unstorable(&self) {
        self.searches.fetch_add(1, Relaxed);
    }
}

const _: () = assert!(FLOW_WORDS <= 256, "a place is a byte");
