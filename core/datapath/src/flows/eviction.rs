//! Eviction: when megaflows take all the memory that they may, or are as many as they may be, one that was unused for long is
//! removed for a new one.
//!
//! CLOCK eviction: the hand goes round all megaflows; of the next [`SAMPLE`] that it visits, the least recently used is removed. To
//! find the least recently used of all would take a look at all.

use super::fold::ago;
use super::{Credits, Flows};
use units::Millis;

/// Megaflows that the hand visits for one eviction.
const SAMPLE: usize = 16;
/// Indices without a megaflow that the hand skips at most in one eviction.
const STEPS: usize = 1024;
/// Removed megaflows that may wait until no reader holds them: there are as many indices beyond the limit.
pub(crate) const SPARE: usize = 8192;
/// If as many are waiting, the readers are asked whether they have gone on.
const WAITING: usize = 256;
/// Evictions for one new megaflow at most: more than one, so that a limit that was lowered is reached step by step.
const GO: usize = 4;

/// How many megaflows there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FlowLimits {
    pub(crate) flows: usize,
    pub(crate) bytes: usize,
}

impl Flows {
    /// An estimate of the bytes of memory that megaflows take.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// A limit is reached.
    pub(super) fn is_full(&self) -> bool {
        self.entries.len() >= self.limits.flows || self.bytes >= self.limits.bytes
    }

    /// Evicts megaflows until one more fits, if the limits are reached; [`Flows::reclaim`] reports them like other removed ones. A
    /// limit of 0 evicts none.
    pub(crate) fn evict_for_new(&mut self, now: Millis, credits: &mut Credits) {
        if self.limits.flows == 0 {
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

    /// The least recently used of those that the hand visits. Megaflows that a command added are not evicted.
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
