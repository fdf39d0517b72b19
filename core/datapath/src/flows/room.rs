//! Room for new megaflows: where they take all the memory that they may, or are as many as they may be, one that was not used
//! for long goes.
//!
//! Which one was used least recently of all is not known without looking at all; of [`SAMPLE`] that a hand comes by, it is.
//! The hand goes round, so that each is looked at in its turn.

use super::fold::ago;
use super::{Credits, Flows};
use units::Millis;

/// Megaflows of which the one unused for longest goes.
const SAMPLE: usize = 16;
/// Indices without a megaflow that the hand passes at most.
const STEPS: usize = 1024;
/// Removed megaflows that may wait for readers: as many more than the limit have an index.
pub(crate) const SPARE: usize = 8192;
/// So many that wait are worth a look whether readers have gone on.
const WAITING: usize = 256;
/// At most so many go for one that comes: more than one, so that a smaller limit is reached by and by.
const GO: usize = 4;

/// How many megaflows there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    pub(crate) flows: usize,
    pub(crate) bytes: usize,
}

impl Flows {
    /// Bytes of memory that megaflows take, as near as can be told.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// There may be no more megaflows.
    pub(super) fn is_full(&self) -> bool {
        self.entries.len() >= self.room.flows || self.bytes >= self.room.bytes
    }

    /// Makes room for one more, unless there is some, or none may be taken. What was removed is told of by
    /// [`Flows::reclaim`], as ever.
    pub(crate) fn make_room(&mut self, now: Millis, credits: &mut Credits) {
        if self.room.flows == 0 {
            return;
        }
        for _ in 0..GO {
            if !self.is_full() {
                return;
            }
            if self.dying.len() >= WAITING {
                self.reclaim(now, credits);
            }
            let oldest = if self.dying.len() < SPARE { self.least_used(now) } else { None };
            let Some(index) = oldest else { return };
            self.take_out(index);
        }
    }

    /// Of those that the hand comes by, the one unused for longest. Those put by hand are their makers'.
    fn least_used(&mut self, now: Millis) -> Option<u32> {
        let indices = self.entries.end();
        let (mut oldest, mut seen) = (None, 0);
        for _ in 0..STEPS {
            self.hand = if self.hand + 1 < indices { self.hand + 1 } else { 0 };
            let Some(age) = self.age(self.hand, now) else { continue };
            if oldest.is_none_or(|(_, other)| age > other) {
                oldest = Some((self.hand, age));
            }
            seen += 1;
            if seen == SAMPLE {
                break;
            }
        }
        oldest.map(|(index, _)| index)
    }

    /// Milliseconds since the last packet, or since it was made.
    fn age(&self, index: u32, now: Millis) -> Option<u64> {
        self.entries.get(index)?.birth?;
        let folded = now.since(self.entries.used(index)).0;
        let news = self.lanes.iter().flatten().filter_map(|slot| slot.news(index));
        Some(news.map(|(read, _)| ago(read.used, now)).fold(folded, u64::min))
    }
}
