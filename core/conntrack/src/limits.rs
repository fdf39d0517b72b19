//! Limits of the number of connections, in total and by zone.
//!
//! **Threads**: workers reserve a place for each new connection. The limits of zones are behind a read-write
//! lock. A flag says that no zone has a limit; then the lock is not taken.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Default maximum of connections, as in Open vSwitch.
const TOTAL: u32 = 3_000_000;

/// The limit of a zone (`zone` is `None`: of all zones without their own).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct ZoneLimit {
    pub zone: Option<u16>,
    pub limit: u32,
    /// Number of connections since the zone has a limit.
    pub count: u32,
}

/// Limits and counts of connections.
#[derive(Debug)]
pub(crate) struct Limits {
    total: AtomicU32,
    count: AtomicU32,
    zones_limited: AtomicBool,
    zones: RwLock<Zones>,
    /// Connections of every zone, with a limit or without: 256 KB, from the first connection on.
    by_zone: OnceLock<Box<[AtomicU32]>>,
}

#[derive(Debug, Default)]
struct Zones {
    /// Default limit of zones; 0: none.
    default: u32,
    zones: BTreeMap<u16, Zone>,
    /// The number of the latest count.
    last: u32,
}

#[derive(Debug)]
struct Zone {
    /// `None`: the default.
    limit: Option<u32>,
    count: AtomicU32,
    /// Distinguishes this count from earlier counts of the zone: a connection belongs to one of them.
    number: u32,
}

/// Result of reserving a place for a new connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// Included in the total and in this count of its zone; 0: the zone has no limit.
    Counted(u32),
    /// The limit of its zone is reached.
    ZoneFull,
    /// The total limit is reached.
    Full,
}

/// Increments the count unless it is `most` or more.
fn take(count: &AtomicU32, most: u32) -> bool {
    count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| (n < most).then_some(n + 1)).is_ok()
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            total: AtomicU32::new(TOTAL),
            count: AtomicU32::new(0),
            zones_limited: AtomicBool::new(false),
            zones: RwLock::default(),
            by_zone: OnceLock::new(),
        }
    }
}

impl Limits {
    /// Reserves a place for a connection of a zone.
    pub(crate) fn admit(&self, zone: u16) -> Admission {
        let number = match self.zones_limited.load(Ordering::Relaxed) {
            true => match self.admit_to_zone(zone) {
                Some(number) => number,
                None => return Admission::ZoneFull,
            },
            false => 0,
        };
        if take(&self.count, self.total()) {
            self.of_zone(zone).fetch_add(1, Ordering::Relaxed);
            return Admission::Counted(number);
        }
        self.leave_zone(zone, number);
        Admission::Full
    }

    /// Releases the place of a connection.
    pub(crate) fn leave(&self, zone: u16, number: u32) {
        self.count.fetch_sub(1, Ordering::Relaxed);
        self.of_zone(zone).fetch_sub(1, Ordering::Relaxed);
        self.leave_zone(zone, number);
    }

    fn of_zone(&self, zone: u16) -> &AtomicU32 {
        let zones = self.by_zone.get_or_init(|| (0..=u16::MAX).map(|_| AtomicU32::new(0)).collect());
        &zones[usize::from(zone)]
    }

    /// The number of connections of a zone.
    pub(crate) fn count_of_zone(&self, zone: u16) -> u32 {
        self.by_zone.get().map_or(0, |zones| zones[usize::from(zone)].load(Ordering::Relaxed))
    }

    /// The `most` zones with the most connections, and their numbers of connections.
    pub(crate) fn zones(&self, most: usize) -> Vec<(u16, u32)> {
        let counts = (0..=u16::MAX).map(|zone| (zone, self.count_of_zone(zone)));
        let mut some: Vec<(u16, u32)> = counts.filter(|(_, n)| *n > 0).collect();
        if some.len() > most {
            some.select_nth_unstable_by_key(most, |(_, n)| std::cmp::Reverse(*n));
            some.truncate(most);
        }
        some.sort_unstable();
        some
    }

    fn leave_zone(&self, zone: u16, number: u32) {
        if number == 0 {
            return;
        }
        if let Some(z) = self.read().zones.get(&zone).filter(|z| z.number == number) {
            z.count.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Includes a connection in its zone's count and returns its number; 0: the zone has no limit. `None`:
    /// the zone is full.
    fn admit_to_zone(&self, zone: u16) -> Option<u32> {
        let known = |zones: &Zones| {
            let found = zones.zones.get(&zone)?;
            let most = found.limit.unwrap_or(zones.default);
            Some(take(&found.count, most).then_some(found.number))
        };
        let zones = self.read();
        match known(&zones) {
            Some(place) => return place,
            None if zones.default == 0 => return Some(0),
            None => drop(zones),
        }
        // The zone gets the default limit and is counted from now on.
        let mut zones = self.write();
        zones.count(zone, None);
        known(&zones).unwrap_or(Some(0))
    }

    fn read(&self) -> RwLockReadGuard<'_, Zones> {
        self.zones.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Zones> {
        self.zones.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of connections.
    pub(crate) fn count(&self) -> u32 {
        self.count.load(Ordering::Relaxed)
    }

    /// Maximum number of connections.
    pub(crate) fn total(&self) -> u32 {
        self.total.load(Ordering::Relaxed)
    }

    pub(crate) fn set_total(&self, total: u32) {
        self.total.store(total, Ordering::Relaxed);
    }

    /// Sets a limit; a default of 0 means no limit. Returns whether the zone had a limit before.
    pub(crate) fn set(&self, zone: Option<u16>, limit: u32) -> bool {
        let mut zones = self.write();
        let before = match zone {
            None => {
                zones.set_default(limit);
                true
            }
            Some(zone) => {
                let there = zones.zones.get_mut(&zone).map(|z| z.limit = Some(limit)).is_some();
                zones.count(zone, Some(limit));
                there
            }
        };
        self.note(&zones);
        before
    }

    /// Removes a limit and returns whether there was one. A zone without a limit gets the default, if there
    /// is one.
    pub(crate) fn remove(&self, zone: Option<u16>) -> bool {
        let mut zones = self.write();
        let there = match zone {
            None => {
                zones.set_default(0);
                true
            }
            Some(zone) if zones.default == 0 => zones.zones.remove(&zone).is_some(),
            Some(zone) => zones.zones.get_mut(&zone).map(|z| z.limit = None).is_some(),
        };
        self.note(&zones);
        there
    }

    fn note(&self, zones: &Zones) {
        let limited = zones.default != 0 || !zones.zones.is_empty();
        self.zones_limited.store(limited, Ordering::Relaxed);
    }

    /// The limit that applies to a zone.
    pub(crate) fn get(&self, zone: Option<u16>) -> ZoneLimit {
        let zones = self.read();
        let found = zone.and_then(|zone| zones.zones.get(&zone));
        ZoneLimit {
            zone,
            limit: found.and_then(|z| z.limit).unwrap_or(zones.default),
            count: found.map_or(0, |z| z.count.load(Ordering::Relaxed)),
        }
    }

    /// The default limit, then those of zones with their own limits.
    pub(crate) fn all(&self) -> Vec<ZoneLimit> {
        let zones = self.read();
        let own = zones.zones.iter().filter_map(|(zone, z)| {
            let count = z.count.load(Ordering::Relaxed);
            z.limit.map(|limit| ZoneLimit { zone: Some(*zone), limit, count })
        });
        [ZoneLimit { zone: None, limit: zones.default, count: 0 }].into_iter().chain(own).collect()
    }
}

impl Zones {
    /// Starts to count a zone's connections, unless they are counted already.
    fn count(&mut self, zone: u16, limit: Option<u32>) {
        let number = self.last.wrapping_add(1).max(1);
        if let Entry::Vacant(vacant) = self.zones.entry(zone) {
            vacant.insert(Zone { limit, count: AtomicU32::new(0), number });
            self.last = number;
        }
    }

    fn set_default(&mut self, limit: u32) {
        self.default = limit;
        if limit == 0 {
            self.zones.retain(|_, z| z.limit.is_some());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_are_counted_without_a_limit() {
        let limits = Limits::default();
        for (zone, n) in [(0, 3), (7, 1), (u16::MAX, 2)] {
            (0..n).for_each(|_| assert_eq!(limits.admit(zone), Admission::Counted(0)));
        }
        assert_eq!(limits.zones(10), [(0, 3), (7, 1), (u16::MAX, 2)]);
        assert_eq!(limits.zones(2), [(0, 3), (u16::MAX, 2)]);
        limits.leave(7, 0);
        assert_eq!(limits.zones(10), [(0, 3), (u16::MAX, 2)]);
        // Connections that were refused are not counted.
        limits.set(Some(7), 0);
        assert_eq!((limits.admit(7), limits.zones(10).len()), (Admission::ZoneFull, 2));
        limits.set_total(5);
        assert_eq!((limits.admit(0), limits.zones(1)), (Admission::Full, vec![(0, 3)]));
    }
}
