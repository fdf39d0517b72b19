//! Periodic rebalancing of loads.

use crate::bond::Bond;
use crate::buckets::BUCKETS;
use crate::plan::{Load, plan};
use crate::sharing::index;
use units::{Millis, OfPort};

/// Links are not rebalanced if their loads differ by less than this number of bytes.
const LEAST_BYTES: u64 = 100_000;

impl Bond {
    /// Returns whether the next [`Bond::rebalance`] compares the loads of the links.
    pub fn is_rebalance_due(&self, now: Millis) -> bool {
        self.is_rebalanced() && now != self.rebalanced_at && now >= self.next_rebalance
    }

    /// Moves buckets between links if a rebalance is due, then halves the byte counts, so that older traffic counts less. Returns true if buckets
    /// have moved: translations must then be made again.
    pub fn rebalance(&mut self, now: Millis) -> bool {
        let due = self.is_rebalance_due(now);
        self.rebalanced_at = now;
        if !due {
            return false;
        }
        self.next_rebalance = now + self.settings.rebalance_interval;
        self.account();
        let enabled = self.enabled();
        let Some(buckets) = &mut self.buckets else { return false };
        let carried = (0..BUCKETS).filter(|i| buckets.bytes[*i] > 0);
        let carried: Vec<(usize, Load)> = carried
            .filter_map(|i| {
                Some((i, Load { bytes: buckets.bytes[i], link: index(&enabled, buckets.owners[i])? }))
            })
            .collect();
        let loads: Vec<Load> = carried.iter().map(|(_, load)| *load).collect();
        let plan = plan(&loads, enabled.len(), LEAST_BYTES);
        for (i, link) in &plan.moves {
            buckets.owners[carried[*i].0] = enabled[*link];
        }
        let elephant = plan.elephant.map(|i| (carried[i].0, loads[i].bytes));
        self.report_elephant(elephant);
        if !plan.moves.is_empty() {
            self.report_moves(&enabled);
        }
        self.buckets.iter_mut().flat_map(|b| &mut b.bytes).for_each(|bytes| *bytes /= 2);
        !plan.moves.is_empty()
    }

    /// Logs a bucket that carries more bytes than a link's share, even if no bucket can be moved. The bucket
    /// is not logged again as long as each rebalance finds the same one. `elephant`: the bucket and its
    /// bytes.
    fn report_elephant(&mut self, elephant: Option<(usize, u64)>) {
        let before = std::mem::replace(&mut self.elephant, elephant.map(|(bucket, _)| bucket));
        if let Some((bucket, bytes)) = elephant.filter(|(bucket, _)| before != Some(*bucket)) {
            self.lines.push(format!(
                "bond {}: hash {bucket} carries {} kB, more than a member's share, and cannot be divided",
                self.settings.name,
                bytes / 1024
            ));
        }
    }

    fn report_moves(&mut self, enabled: &[OfPort]) {
        let Some(buckets) = &self.buckets else { return };
        let carried = |port: &OfPort| {
            let all = buckets.owners.iter().zip(&buckets.bytes);
            let bytes: u64 = all.filter(|(owner, _)| *owner == port).map(|(_, bytes)| bytes).sum();
            let name = self.links.get(port).map_or("", |l| &l.facts.name);
            format!("{name}:{}kB", bytes / 1024)
        };
        let carried: Vec<String> = enabled.iter().map(carried).collect();
        let name = &self.settings.name;
        self.lines.push(format!("bond {name}: rebalanced (now carrying: {})", carried.join(" and ")));
    }
}
