//! Folding: adds the workers' counts in their lanes to the totals, and collects credits for the owners.
//!
//! The counts at the last fold are stored contiguously, so a megaflow without a new packet costs the
//! comparison of two words.

use super::entries::CHUNK;
use super::{Credits, Flows};
use dpif::FlowStats;
use std::ops::Range;
use std::sync::Arc;
use sync::{LaneCount, Lanes};
use units::{Millis, WorkerId};

/// One lane of counters, with the counts at the last fold.
pub(super) struct LaneSlot {
    pub(super) worker: WorkerId,
    pub(super) lanes: Lanes,
    seen: Vec<Option<Box<[LaneCount]>>>,
}

impl LaneSlot {
    pub(super) fn new(worker: WorkerId, lanes: Lanes) -> LaneSlot {
        LaneSlot { worker, lanes, seen: Vec::new() }
    }

    /// The counts that are not folded yet, and those at the last fold; `None` if they are equal.
    pub(super) fn news(&self, index: u32) -> Option<(LaneCount, LaneCount)> {
        let (read, seen) = (self.lanes.read(index), self.seen(index));
        (read.packets_since(&seen) != 0).then_some((read, seen))
    }

    fn seen(&self, index: u32) -> LaneCount {
        let chunk = self.seen.get(index as usize / CHUNK).and_then(Option::as_ref);
        chunk.map(|c| c[index as usize % CHUNK]).unwrap_or_default()
    }

    fn see(&mut self, index: u32, read: LaneCount) {
        let (chunk, at) = (index as usize / CHUNK, index as usize % CHUNK);
        if self.seen.len() <= chunk {
            self.seen.resize_with(chunk + 1, || None);
        }
        self.seen[chunk].get_or_insert_with(|| vec![LaneCount::default(); CHUNK].into())[at] = read;
    }

    /// Clears an index before it is used again.
    pub(super) fn clear(&mut self, index: u32) {
        self.lanes.clear(index);
        if let Some(Some(chunk)) = self.seen.get_mut(index as usize / CHUNK) {
            chunk[index as usize % CHUNK] = LaneCount::default();
        }
    }

    /// The difference since the last call.
    fn take(&mut self, index: u32, now: Millis) -> Option<FlowStats> {
        let (read, seen) = self.news(index)?;
        self.see(index, read);
        Some(FlowStats {
            packets: read.packets_since(&seen),
            bytes: read.bytes_since(&seen),
            used: Some(Millis(now.0.saturating_sub(ago(read.used, now)))),
            tcp_flags: read.tcp_flags,
        })
    }
}

/// Milliseconds since a time of a lane.
pub(super) fn ago(used: u32, now: Millis) -> u64 {
    let ago = (now.0 as u32).wrapping_sub(used);
    // The clock of a worker may be slightly ahead of the caller's.
    if ago > u32::MAX / 2 { 0 } else { ago.into() }
}

impl Flows {
    /// Folds one megaflow.
    pub(super) fn fold_index(&mut self, index: u32, now: Millis, credits: &mut Credits) {
        let Flows { lanes, entries, dying, .. } = self;
        let mut sum = FlowStats::default();
        for (place, slot) in lanes.iter_mut().enumerate() {
            let Some(slot) = slot else { continue };
            let Some(delta) = slot.take(index, now) else { continue };
            sum.add(&delta);
            if let Some(entry) = entries.get_mut(index) {
                entry.count(place, slot.worker, &delta);
            }
        }
        if sum.packets == 0 {
            return;
        }
        if let Some(entry) = entries.get_mut(index) {
            entry.total.add(&sum);
            credits.push((Arc::clone(&entry.owner), sum));
            let used = entry.total.used.unwrap_or(now);
            entries.set_used(index, used);
        } else if let Some(owner) = dying.get(&index) {
            credits.push((Arc::clone(owner), sum));
        }
    }

    /// Folds a range of megaflows.
    pub(crate) fn fold_range(&mut self, range: Range<u32>, now: Millis, credits: &mut Credits) {
        for index in range {
            if self.lanes.iter().flatten().any(|slot| slot.news(index).is_some()) {
                self.fold_index(index, now, credits);
            }
        }
    }

    /// Folds all megaflows.
    pub(crate) fn fold(&mut self, now: Millis) -> Credits {
        let mut credits = Vec::new();
        self.fold_range(0..self.entries.end(), now, &mut credits);
        credits
    }
}
