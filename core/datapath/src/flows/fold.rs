//! Folding: adds the workers' counts in their lanes to the totals, and collects credits for the owners.

use super::{Credits, Flows};
use dpif::FlowStats;
use std::ops::Range;
use std::sync::Arc;
use units::Millis;

impl Flows {
    /// Folds one megaflow.
    pub(super) fn fold_index(&mut self, index: u32, now: Millis, credits: &mut Credits) {
        let Flows { lanes, entries, removed_owners, .. } = self;
        let mut sum = FlowStats::default();
        for (slot, lane) in lanes.iter_mut().enumerate() {
            let Some(lane) = lane else { continue };
            let Some(delta) = lane.take(index, now) else { continue };
            sum.add(&delta);
            if let Some(entry) = entries.get_mut(index) {
                entry.count(slot, lane.worker, &delta);
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
        } else if let Some(owner) = removed_owners.get(&index) {
            credits.push((Arc::clone(owner), sum));
        }
    }

    /// Folds a range of megaflows.
    pub(crate) fn fold_range(&mut self, range: Range<u32>, now: Millis, credits: &mut Credits) {
        for index in range {
            if self.lanes.iter().flatten().any(|lane| lane.present_and_folded(index).is_some()) {
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
