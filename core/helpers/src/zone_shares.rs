//! Number of expectations per zone, and the choice of the expectation to evict when the table is full.
//!
//! **The rule.** The zone with the most expectations loses its oldest one; of several such zones, the one
//! with the highest zone number. So announcements in one zone evict an expectation of another zone only if
//! that zone has at least as many expectations.

use std::collections::{BTreeMap, BTreeSet};

/// The expectations of each zone, ordered by sequence; `E` identifies an expectation. Each operation costs O(log n).
#[derive(Debug)]
pub(crate) struct ZoneShares<E> {
    /// Expectations of each zone by their sequence: lower numbers are older.
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
    pub(crate) fn insert(&mut self, zone: u16, sequence: u64, expectation: E) {
        let of_zone = self.by_zone.entry(zone).or_default();
        self.ranks.remove(&(of_zone.len(), zone));
        of_zone.insert(sequence, expectation);
        self.ranks.insert((of_zone.len(), zone));
    }

    /// Removes an expectation of a zone.
    pub(crate) fn remove(&mut self, zone: u16, sequence: u64) {
        let Some(of_zone) = self.by_zone.get_mut(&zone) else { return };
        self.ranks.remove(&(of_zone.len(), zone));
        of_zone.remove(&sequence);
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
