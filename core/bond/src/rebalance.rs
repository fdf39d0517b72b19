//! Periodic rebalancing of loads.

use crate::bond::Bond;
use crate::buckets::BUCKETS;
use crate::plan::{Load, plan};
use crate::sharing::index;
use units::{Millis, OfPort};

/// Smaller differences between links are ignored.
const LEAST_BYTES: u64 = 100_000;

impl Bond {
    /// Rebalances if the interval has passed, and halves all byte counts. Returns true if buckets have moved
    /// and translations must be made again.
    pub fn rebalance(&mut self, now: Millis) -> bool {
        let looked = std::mem::replace(&mut self.looked, now);
        if !self.is_balanced() || now == looked || now < self.next_rebalance {
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
        self.report(&enabled, elephant, !plan.moves.is_empty());
        self.buckets.iter_mut().flat_map(|b| &mut b.bytes).for_each(|bytes| *bytes /= 2);
        !plan.moves.is_empty()
    }

    fn report(&mut self, enabled: &[OfPort], elephant: Option<(usize, u64)>, moved: bool) {
        let (Some(buckets), name) = (&self.buckets, &self.settings.name) else { return };
        if let Some((bucket, bytes)) = elephant.filter(|_| moved) {
            self.lines.push(format!(
                "bond {name}: hash {bucket} carries {} kB, more than a member's part, and cannot be divided",
                bytes / 1024
            ));
        }
        if moved {
            let carried = |port: &OfPort| {
                let all = buckets.owners.iter().zip(&buckets.bytes);
                let bytes: u64 = all.filter(|(owner, _)| *owner == port).map(|(_, bytes)| bytes).sum();
                let name = self.links.get(port).map_or("", |l| &l.facts.name);
                format!("{name}:{}kB", bytes / 1024)
            };
            let carried: Vec<String> = enabled.iter().map(carried).collect();
            self.lines.push(format!("bond {name}: rebalanced (now carrying: {})", carried.join(" and ")));
        }
    }
}
