//! Assigns buckets to links when links are added, removed, enabled or disabled.

use crate::bond::Bond;
use crate::buckets::{BUCKETS, Buckets};
use crate::plan::{Load, plan};
use crate::settings::Mode;
use units::{Millis, OfPort};

/// The index of a link among the enabled links.
pub(crate) fn index(enabled: &[OfPort], link: OfPort) -> Option<usize> {
    enabled.iter().position(|port| *port == link)
}

impl Bond {
    /// The enabled links.
    pub(crate) fn enabled(&self) -> Vec<OfPort> {
        self.links().filter(|(_, l)| l.enabled).map(|(port, _)| port).collect()
    }

    /// Assigns all buckets from scratch and resets their loads.
    pub(crate) fn reassign_all(&mut self, now: Millis) {
        let shares = self.settings.mode != Mode::ActiveBackup && !self.falls_back();
        self.buckets = shares.then(Buckets::default);
        self.assigned_since = now;
        self.next_rebalance = now + self.settings.rebalance_interval;
        (self.changed, self.must_distribute) = (true, true);
    }

    /// Assigns the buckets whose link is not enabled. Also moves buckets from loaded links to less loaded ones, so that new links get a
    /// share; if loads are not rebalanced, only buckets that have not carried any packet move.
    pub(crate) fn spread_buckets(&mut self) {
        let enabled = self.enabled();
        let moves_all = self.is_rebalanced();
        if !moves_all {
            self.account();
        }
        let Some(buckets) = &mut self.buckets else { return };
        self.changed = true;
        if enabled.is_empty() {
            buckets.owners = [OfPort::NONE; BUCKETS];
            return;
        }
        // One byte is added to each bucket, so that buckets without traffic are spread evenly, too.
        let weight = |bytes: u64| bytes + 1;
        let mut sums = vec![0; enabled.len()];
        let mut owners = buckets.owners.map(|owner| index(&enabled, owner));
        if !moves_all {
            let unused = owners.iter_mut().zip(&buckets.bytes).filter(|(_, bytes)| **bytes == 0);
            unused.for_each(|(owner, _)| *owner = None);
        }
        for (owner, bytes) in owners.iter().zip(&buckets.bytes) {
            owner.map(|i| sums[i] += weight(*bytes));
        }
        for (owner, bytes) in owners.iter_mut().zip(&buckets.bytes).filter(|(owner, _)| owner.is_none()) {
            let least = (0..sums.len()).min_by_key(|i| sums[*i]).unwrap_or_default();
            sums[least] += weight(*bytes);
            *owner = Some(least);
        }
        if moves_all {
            let loads: Vec<Load> = (0..BUCKETS)
                .map(|i| Load { bytes: weight(buckets.bytes[i]), link: owners[i].unwrap_or_default() })
                .collect();
            for (bucket, link) in plan(&loads, enabled.len(), 0).moves {
                owners[bucket] = Some(link);
            }
        }
        buckets.owners = owners.map(|i| i.and_then(|i| enabled.get(i).copied()).unwrap_or(OfPort::NONE));
    }

    /// Adds to the buckets the bytes that were counted since the last call.
    pub fn account(&mut self) {
        let counted = self.tally.take();
        let Some(buckets) = &mut self.buckets else { return };
        buckets.bytes.iter_mut().zip(counted).for_each(|(bytes, more)| *bytes += more);
    }
}
