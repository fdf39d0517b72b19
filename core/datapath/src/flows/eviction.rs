//! Eviction: when megaflows reach the limit of memory or of their number, each new megaflow replaces one, and up to
//! four after a limit was lowered. Those that have been unused for long are replaced.
//!
//! CLOCK eviction: a hand goes round all megaflows. Of the next [`SAMPLE`] megaflows the least recently used one is
//! removed. Finding the least recently used of all megaflows would require a visit of all.

use super::limits::SPARE;
use super::worker_lane::ago;
use super::{Credits, Flows};
use units::Millis;

/// Number of megaflows visited for one eviction.
const SAMPLE: usize = 16;
/// Maximum number of indices that are visited in one eviction, including free ones.
const STEPS: usize = 1024;
/// If this many removed megaflows wait for their readers, the readers' progress is checked.
const RECLAIM_THRESHOLD: usize = 256;
/// Maximum number of evictions for one new megaflow. More than one, so that after a limit was lowered, the number of
/// megaflows approaches the limit step by step.
const EVICTIONS_MAX: usize = 4;

impl Flows {
    /// The estimated memory of all megaflows in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns whether a limit is reached.
    pub(super) fn is_full(&self) -> bool {
        self.entries.len() >= self.limits.flows || self.is_memory_full()
    }

    /// Returns whether the limit of memory is reached.
    pub(super) fn is_memory_full(&self) -> bool {
        self.bytes >= self.limits.bytes
    }

    /// If a limit is reached, evicts megaflows until one more fits. [`Flows::reclaim`] frees evicted megaflows like
    /// other removed ones. With a limit of 0, none are evicted.
    pub(crate) fn evict_for_new(&mut self, now: Millis, credits: &mut Credits) {
        if self.limits.flows == 0 {
            return;
        }
        for _ in 0..EVICTIONS_MAX {
            if !self.is_full() {
                return;
            }
            if self.removed_owners.len() >= RECLAIM_THRESHOLD {
                self.reclaim(now, credits);
            }
            let oldest = if self.removed_owners.len() < SPARE { self.least_recently_used(now) } else { None };
            let Some(index) = oldest else { return };
            self.unpublish(index);
        }
    }

    /// Returns the least recently used of the next megaflows. Megaflows that a command added are not evicted.
    fn least_recently_used(&mut self, now: Millis) -> Option<u32> {
        let indices = self.entries.end();
        let (mut oldest, mut seen) = (None, 0);
        for _ in 0..STEPS {
            self.clock_hand = if self.clock_hand + 1 < indices { self.clock_hand + 1 } else { 0 };
            let Some(age) = self.age(self.clock_hand, now) else { continue };
            if oldest.is_none_or(|(_, other)| age > other) {
                oldest = Some((self.clock_hand, age));
            }
            seen += 1;
            if seen == SAMPLE {
                break;
            }
        }
        oldest.map(|(index, _)| index)
    }

    /// Returns the time in milliseconds since the megaflow's last packet or, without packets, since it was added. `None`: there is no megaflow, or
    /// a command added it; such a megaflow is not evicted.
    fn age(&self, index: u32, now: Millis) -> Option<u64> {
        self.entries.get(index)?.miss_origin?;
        let folded = now.since(self.entries.used(index)).0;
        let unfolded = self.lanes.iter().flatten().filter_map(|lane| lane.present_and_folded(index));
        Some(unfolded.map(|(read, _)| ago(read.used, now)).fold(folded, u64::min))
    }
}
