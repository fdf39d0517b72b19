//! Timeout policies of connections. Zones with equal timeouts in the database share a policy; each policy has a number.
//!
//! **Thread**: the main loop.

use config::datapath::Timeouts;
use conntrack::{Conntrack, TimeoutPolicy};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The timeout policies of a datapath.
#[derive(Debug, Default)]
pub struct TimeoutPolicies {
    /// The number of each policy, by its timeouts.
    numbers: BTreeMap<Timeouts, u16>,
    /// The number of each zone's policy, by zone.
    zones: Arc<BTreeMap<u16, u16>>,
}

impl TimeoutPolicies {
    /// The number of each zone's policy, by zone.
    pub fn zones(&self) -> &Arc<BTreeMap<u16, u16>> {
        &self.zones
    }

    /// Applies the timeouts of the database. Returns whether the number of a zone's policy has
    /// changed. Policies that no zone uses are removed; connections that were created with such a policy then have the default
    /// timeouts, or those of a later policy with the same number.
    pub fn configure(&mut self, table: &Conntrack, wanted: &BTreeMap<u16, Timeouts>) -> bool {
        self.numbers.retain(|timeouts, number| {
            let stays = wanted.values().any(|w| w == timeouts);
            if !stays {
                table.set_timeout_policy(*number, None);
            }
            stays
        });
        let zones = wanted.iter().filter_map(|(zone, timeouts)| Some((*zone, self.number(table, timeouts)?)));
        let zones: BTreeMap<u16, u16> = zones.collect();
        let changed = *self.zones != zones;
        if changed {
            self.zones = Arc::new(zones);
        }
        changed
    }

    /// The number of the policy with these timeouts; the policy is created if it does not exist. `None`: all numbers
    /// are in use.
    fn number(&mut self, table: &Conntrack, timeouts: &Timeouts) -> Option<u16> {
        if let Some(number) = self.numbers.get(timeouts) {
            return Some(*number);
        }
        let number = (1..=u16::MAX).find(|n| !self.numbers.values().any(|used| used == n))?;
        table.set_timeout_policy(number, Some(TimeoutPolicy::new(*timeouts)));
        self.numbers.insert(*timeouts, number);
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_share_policies_and_numbers_come_back() {
        let (table, mut policies) = (Conntrack::new(1), TimeoutPolicies::default());
        let timeouts = |seconds| -> Timeouts {
            let mut timeouts = Timeouts::default();
            timeouts[6] = Some(seconds);
            timeouts
        };
        let mut configure = |wanted: &[(u16, u32)]| {
            let wanted = wanted.iter().map(|(zone, seconds)| (*zone, timeouts(*seconds))).collect();
            let changed = policies.configure(&table, &wanted);
            (changed, policies.zones().iter().map(|(zone, n)| (*zone, *n)).collect::<Vec<_>>())
        };
        assert_eq!(configure(&[(5, 10), (6, 20), (7, 10)]), (true, vec![(5, 1), (6, 2), (7, 1)]));
        assert_eq!(configure(&[(5, 10), (6, 20), (7, 10)]), (false, vec![(5, 1), (6, 2), (7, 1)]));
        assert_eq!(configure(&[(6, 20)]), (true, vec![(6, 2)]));
        assert_eq!(configure(&[(6, 20), (8, 30)]), (true, vec![(6, 2), (8, 1)]));
    }
}
