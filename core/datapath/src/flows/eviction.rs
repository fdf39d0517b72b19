//! Eviction: when megaflows reach the limit of memory or of their number, one that was unused for long is
//! removed for each new one.
//!
//! CLOCK eviction: a hand goes round all megaflows; of the next [`SAMPLE`] megaflows the least recently used
//! is removed. Finding the least recently used of all would mean to visit all.

use super::lane_slot::ago;
use super::limits::SPARE;
use super::{Credits, Flows};
use units::Millis;

/// Megaflows visited for one eviction.
const SAMPLE: usize = 16;
/// Free indices that are skipped at most in one eviction.
const STEPS: usize = 1024;
/// If this many are waiting, the readers' progress is checked.
const WAITING: usize = 256;
/// Maximum evictions for one new megaflow: more than one, so that after a limit was lowered, the number
/// approaches it step by step.
const EVICTIONS_MAX: usize = 4;

impl Flows {
    /// An estimate of the bytes of memory that megaflows take.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns whether a limit is reached.
    pub(super) fn is_full(&self) -> bool {
        self.entries.len() >= self.limits.flows || self.takes_all_memory()
    }

    /// Returns whether the limit of memory is reached.
    pub(super) fn takes_all_memory(&self) -> bool {
        self.bytes >= self.limits.bytes
    }

    /// Evicts megaflows until one more fits, if the limits are reached; [`Flows::reclaim`] reports them like other removed ones. A
    /// limit of 0 evicts none.
    pub(crate) fn evict_for_new(&mut self, now: Millis, credits: &mut Credits) {
        if self.limits.flows == 0 {
            return;
        }
        for _ in 0..EVICTIONS_MAX {
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

    /// The least recently used of the next megaflows. Megaflows that a command added are not evicted.
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

    /// Milliseconds since the last packet, or since it was added.
    fn age(&self, index: u32, now: Millis) -> Option<u64> {
        self.entries.get(index)?.birth?;
        let folded = now.since(self.entries.used(index)).0;
        let news = self.lanes.iter().flatten().filter_map(|slot| slot.news(index));
        Some(news.map(|(read, _)| ago(read.used, now)).fold(folded, u64::min))
    }
}
