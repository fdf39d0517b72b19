//! What look-ups in a table have found lately, by the bits that decided it.
//!
//! Packets of many flows walk through the same tables, and most tables look at few bits that are the same for many of them. By
//! the law of the module, a flow that is equal to an earlier one under the mask of that one's look-up has the same
//! result: a hash over a few words finds it, where the search visits every subtable. Noted are only searches that would
//! examine the same bits again, so that megaflows do not depend on which packet was first.
//!
//! A table that changes begins with an empty memo. What was noted first stays: nothing is ever replaced, so that readers need
//! no lock, and a table that is asked for ever other values costs a probe more, and no more memory. So the hash needs no
//! secret: whoever makes values collide can do no more than whoever sends many.

use super::sparse::mix;
use flow::{FLOW_WORDS, Flow};
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

/// So many masks are noted.
const MASKS: usize = 3;
/// So many results of each, each in one of two places by hash.
const PLACES: usize = 128;
/// Words of a mask that is worth noting.
const WORDS: usize = 8;
/// So often at most a search is made for being noted: it costs more than another.
const NOTES: u32 = 256;

/// See the module.
pub(super) struct Memo<R> {
    masks: [OnceLock<OneMask<R>>; MASKS],
    notes: AtomicU32,
}

struct OneMask<R> {
    words: Vec<(u8, u64)>,
    places: Box<[OnceLock<Box<Noted<R>>>]>,
}

/// The network protocol, which decides what prefixes are of use, and the values under a mask.
type Values = [u64; 1 + WORDS];

struct Noted<R> {
    values: Values,
    rule: Option<Arc<R>>,
}

impl<R> Noted<R> {
    /// A comparison of few words, without a call.
    fn is_of(&self, values: &Values, words: usize) -> bool {
        let both = self.values.iter().zip(values).take(1 + words);
        both.fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
    }
}

/// What is known of a flow.
pub(super) enum Known<'a, R> {
    /// The result; the mask has been added.
    Found(Option<&'a Arc<R>>),
    /// Nothing, and there is room for it.
    Room,
    /// Nothing.
    No,
}

impl<R> Default for Memo<R> {
    fn default() -> Self {
        Memo { masks: [const { OnceLock::new() }; MASKS], notes: AtomicU32::new(0) }
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

    /// The flow's values under the mask, and their places.
    fn places(&self, flow: &Flow) -> (Values, [&OnceLock<Box<Noted<R>>>; 2]) {
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
    /// What was noted of a flow like this.
    pub(super) fn get(&self, flow: &Flow, wildcards: &mut Flow) -> Known<'_, R> {
        let mut room = self.masks[0].get().is_none();
        for mask in self.masks.iter().map_while(OnceLock::get) {
            let (values, places) = mask.places(flow);
            for place in places {
                match place.get() {
                    None => room = true,
                    Some(noted) if noted.is_of(&values, mask.words.len()) => {
                        let words = wildcards.words_mut();
                        mask.words.iter().for_each(|&(i, bits)| words[usize::from(i)] |= bits);
                        return Known::Found(noted.rule.as_ref());
                    }
                    Some(_) => {}
                }
            }
        }
        if room && self.notes.load(Relaxed) < NOTES { Known::Room } else { Known::No }
    }

    /// Notes what a search has found that examined just the bits of `mask`.
    pub(super) fn note(&self, flow: &Flow, mask: &Flow, rule: Option<&Arc<R>>) {
        self.notes.fetch_add(1, Relaxed);
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
                    // Another thread may be faster.
                    let _ = free.set(Box::new(Noted { values, rule: rule.cloned() }));
                }
                return;
            }
        }
    }

    /// A search was made for being noted, and its mask is not the only right one: it is not noted.
    pub(super) fn note_nothing(&self) {
        self.notes.fetch_add(1, Relaxed);
    }
}

const _: () = assert!(FLOW_WORDS <= 256, "a place is a byte");
