//! Number of expectations per zone, and the choice of the expectation to evict when the table is full.
//!
//! **The rule.** The zone with the most expectations loses its oldest one; if several zones have the same number, the zone with the highest
//! number loses. So a sender of announcements in one zone can evict the expectations of other zones only while they hold as many as its own.

use std::collections::{BTreeMap, BTreeSet};

/// The expectations of each zone, ordered by age; `E` identifies an expectation. Each operation costs O(log n).
#[derive(Debug)]
pub(crate) struct ZoneShares<E> {
    /// Expectations of each zone by their age: lower ages are older.
    by_zone: BTreeMap<u16, BTreeMap<u64, E>>,
    /// Zones ordered by their number of expectations: number, zone.
    ranks: BTreeSet<(usize, u16)>,
}

impl<E> Default for ZoneShares<E> {
    fn default() -> ZoneShares<E> {
        ZoneShares { by_zone: BTreeMap::new(), ranks: BTreeSet::new() }
    }
}

impl<E: Copy> ZoneShares<E> {
    /// Adds an expectation of a zone.
    pub(crate) fn insert(&mut self, zone: u16, age: u64, expectation: E) {
        let of_zone = self.by_zone.entry(zone).or_default();
        self.ranks.remove(&(of_zone.len(), zone));
        of_zone.insert(age, expectation);
        self.ranks.insert((of_zone.len(), zone));
    }

    /// Removes an expectation of a zone.
    pub(crate) fn remove(&mut self, zone: u16, age: u64) {
        let Some(of_zone) = self.by_zone.get_mut(&zone) else { return };
        self.ranks.remove(&(of_zone.len(), zone));
        of_zone.remove(&age);
        if of_zone.is_empty() {
            self.by_zone.remove(&zone);
        } else {
            self.ranks.insert((of_zone.len(), zone));
        }
    }

    /// The expectation to evict next.
    pub(crate) fn to_evict(&self) -> Option<E> {
        let (_, zone) = self.ranks.last()?;
        self.by_zone.get(zone)?.values().next().copied()
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.by_zone.is_empty() && self.ranks.is_empty()
    }
}
