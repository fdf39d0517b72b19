//! Limits of the number of connections, in total and by zone.
//!
//! **Threads**: workers count each new connection. The limits of zones are behind a read-write lock. If no zone has a limit, a flag says so
//! and a new connection does not take the lock.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Default maximum number of connections, as in Open vSwitch.
const DEFAULT_MAX: u32 = 3_000_000;

/// The limit of a zone. `zone` is `None`: the default limit of zones without their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct ZoneLimit {
    pub zone: Option<u16>,
    pub limit: u32,
    /// Number of connections that began since the zone has had a limit and still exist.
    pub count: u32,
}

/// Limits and counts of connections.
#[derive(Debug)]
pub(crate) struct Limits {
    /// Maximum number of connections.
    max: AtomicU32,
    /// Number of connections.
    count: AtomicU32,
    /// At least one zone has a limit, or there is a default limit.
    zones_limited: AtomicBool,
    zones: RwLock<Zones>,
    /// Number of connections of every zone, with a limit or without: 256 KiB, allocated with the first connection.
    by_zone: OnceLock<Box<[AtomicU32]>>,
}

#[derive(Debug, Default)]
struct Zones {
    /// Default limit of zones; 0: no limit.
    default: u32,
    zones: BTreeMap<u16, Zone>,
    /// Id of the latest zone count.
    last_count_id: u32,
}

#[derive(Debug)]
struct Zone {
    /// The zone's own limit. `None`: the default limit applies.
    limit: Option<u32>,
    /// Number of connections that this zone count includes.
    count: AtomicU32,
    /// Id of this zone count. It distinguishes this count from earlier counts of the same zone: a connection belongs to one of them.
    count_id: u32,
}

/// How a connection is included in the counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CountedIn {
    pub(crate) zone: u16,
    /// Id of the zone count that includes the connection; 0: none, because the zone had no limit when the connection began.
    pub(crate) count_id: u32,
}

/// Result of the check whether a new connection is within the limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// The connection is included in the total and in the zone count with this id; 0: the zone has no limit.
    Counted(u32),
    /// The limit of its zone is reached.
    ZoneFull,
    /// The total limit is reached.
    Full,
}

/// Increments the count unless it is `most` or more. Returns whether it was incremented.
fn increment_below(count: &AtomicU32, most: u32) -> bool {
    count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| (n < most).then_some(n + 1)).is_ok()
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            max: AtomicU32::new(DEFAULT_MAX),
            count: AtomicU32::new(0),
            zones_limited: AtomicBool::new(false),
            zones: RwLock::default(),
            by_zone: OnceLock::new(),
        }
    }
}

impl Limits {
    /// Counts a new connection of a zone, if the limits allow it.
    pub(crate) fn admit(&self, zone: u16) -> Admission {
        let Some(count_id) = self.admit_to_zone(zone) else { return Admission::ZoneFull };
        if increment_below(&self.count, self.max()) {
            self.zone_counter(zone).fetch_add(1, Ordering::Relaxed);
            return Admission::Counted(count_id);
        }
        self.release_zone(zone, count_id);
        Admission::Full
    }

    /// Counts a new connection of a zone in the place of an evicted one, if the limits allow it; the total does not change. Returns the
    /// id of the zone count that includes it.
    pub(crate) fn admit_instead(&self, zone: u16, evicted: CountedIn) -> Option<u32> {
        let count_id = self.admit_to_zone(zone);
        // The maximum may have been reduced below the number of connections.
        let Some(count_id) = count_id.filter(|_| self.count() <= self.max()) else {
            count_id.into_iter().for_each(|count_id| self.release_zone(zone, count_id));
            self.release(evicted);
            return None;
        };
        if zone != evicted.zone {
            self.zone_counter(evicted.zone).fetch_sub(1, Ordering::Relaxed);
            self.zone_counter(zone).fetch_add(1, Ordering::Relaxed);
        }
        self.release_zone(evicted.zone, evicted.count_id);
        Some(count_id)
    }

    /// Stops counting a connection.
    pub(crate) fn release(&self, CountedIn { zone, count_id }: CountedIn) {
        self.count.fetch_sub(1, Ordering::Relaxed);
        self.zone_counter(zone).fetch_sub(1, Ordering::Relaxed);
        self.release_zone(zone, count_id);
    }

    fn zone_counter(&self, zone: u16) -> &AtomicU32 {
        let zones = self.by_zone.get_or_init(|| (0..=u16::MAX).map(|_| AtomicU32::new(0)).collect());
        &zones[usize::from(zone)]
    }

    /// The number of connections of a zone.
    pub(crate) fn count_of_zone(&self, zone: u16) -> u32 {
        self.by_zone.get().map_or(0, |zones| zones[usize::from(zone)].load(Ordering::Relaxed))
    }

    /// Up to `max_zones` zones, those with the most connections, sorted by zone, each with its number of connections.
    pub(crate) fn zones(&self, max_zones: usize) -> Vec<(u16, u32)> {
        let counts = (0..=u16::MAX).map(|zone| (zone, self.count_of_zone(zone)));
        let mut some: Vec<(u16, u32)> = counts.filter(|(_, n)| *n > 0).collect();
        if some.len() > max_zones {
            some.select_nth_unstable_by_key(max_zones, |(_, n)| std::cmp::Reverse(*n));
            some.truncate(max_zones);
        }
        some.sort_unstable();
        some
    }

    fn release_zone(&self, zone: u16, count_id: u32) {
        if count_id == 0 {
            return;
        }
        if let Some(z) = self.read().zones.get(&zone).filter(|z| z.count_id == count_id) {
            z.count.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Includes a connection in its zone's count and returns the id of that count; 0: the zone has no limit. `None`: the zone's limit
    /// is reached.
    #[inline(always)]
    fn admit_to_zone(&self, zone: u16) -> Option<u32> {
        if self.zones_limited.load(Ordering::Relaxed) { self.admit_to_limited_zone(zone) } else { Some(0) }
    }

    /// [`admit_to_zone`](Self::admit_to_zone), if some zone has a limit.
    fn admit_to_limited_zone(&self, zone: u16) -> Option<u32> {
        let try_count = |zones: &Zones| {
            let found = zones.zones.get(&zone)?;
            let most = found.limit.unwrap_or(zones.default);
            Some(increment_below(&found.count, most).then_some(found.count_id))
        };
        let zones = self.read();
        match try_count(&zones) {
            Some(admitted) => return admitted,
            None if zones.default == 0 => return Some(0),
            None => drop(zones),
        }
        // The zone gets the default limit: its connections are counted from now on.
        let mut zones = self.write();
        zones.start_count(zone, None);
        try_count(&zones).unwrap_or(Some(0))
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
    pub(crate) fn max(&self) -> u32 {
        self.max.load(Ordering::Relaxed)
    }

    pub(crate) fn set_max(&self, max: u32) {
        self.max.store(max, Ordering::Relaxed);
    }

    /// Sets the limit of a zone, or (`None`) the default limit; a default of 0 means no limit. Returns whether the zone had a zone count
    /// before (for the default limit: always true).
    pub(crate) fn set(&self, zone: Option<u16>, limit: u32) -> bool {
        let mut zones = self.write();
        let before = match zone {
            None => {
                zones.set_default(limit);
                true
            }
            Some(zone) => {
                let there = zones.zones.get_mut(&zone).map(|z| z.limit = Some(limit)).is_some();
                zones.start_count(zone, Some(limit));
                there
            }
        };
        self.update_zones_limited(&zones);
        before
    }

    /// Removes a limit. Returns whether the zone had a zone count, because of its own limit or because a connection began under the default
    /// limit (for the default limit: always true). A zone without its own limit then has the default
    /// limit, if there is one.
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
        self.update_zones_limited(&zones);
        there
    }

    fn update_zones_limited(&self, zones: &Zones) {
        let limited = zones.default != 0 || !zones.zones.is_empty();
        self.zones_limited.store(limited, Ordering::Relaxed);
    }

    /// The limit that applies to a zone, and the number of connections that count towards it.
    pub(crate) fn get(&self, zone: Option<u16>) -> ZoneLimit {
        let zones = self.read();
        let found = zone.and_then(|zone| zones.zones.get(&zone));
        ZoneLimit {
            zone,
            limit: found.and_then(|z| z.limit).unwrap_or(zones.default),
            count: found.map_or(0, |z| z.count.load(Ordering::Relaxed)),
        }
    }

    /// The default limit, then the limits of zones that have their own.
    pub(crate) fn list(&self) -> Vec<ZoneLimit> {
        let zones = self.read();
        let own = zones.zones.iter().filter_map(|(zone, z)| {
            let count = z.count.load(Ordering::Relaxed);
            z.limit.map(|limit| ZoneLimit { zone: Some(*zone), limit, count })
        });
        [ZoneLimit { zone: None, limit: zones.default, count: 0 }].into_iter().chain(own).collect()
    }
}

impl Zones {
    /// Starts a zone count with this limit, unless the zone has a count already.
    fn start_count(&mut self, zone: u16, limit: Option<u32>) {
        let count_id = self.last_count_id.wrapping_add(1).max(1);
        if let Entry::Vacant(vacant) = self.zones.entry(zone) {
            vacant.insert(Zone { limit, count: AtomicU32::new(0), count_id });
            self.last_count_id = count_id;
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
        limits.release(CountedIn { zone: 7, count_id: 0 });
        assert_eq!(limits.zones(10), [(0, 3), (u16::MAX, 2)]);
        // Connections that were refused are not counted.
        limits.set(Some(7), 0);
        assert_eq!((limits.admit(7), limits.zones(10).len()), (Admission::ZoneFull, 2));
        limits.set_max(5);
        assert_eq!((limits.admit(0), limits.zones(1)), (Admission::Full, vec![(0, 3)]));
    }

    #[test]
    fn a_new_connection_has_the_place_of_an_evicted_one() {
        let limits = Limits::default();
        limits.set_max(2);
        limits.set(Some(7), 1);
        let Admission::Counted(count_id) = limits.admit(7) else { panic!("zone 7 has no connection yet") };
        assert_eq!((limits.admit(0), limits.admit(1)), (Admission::Counted(0), Admission::Full));
        let of_zone_7 = CountedIn { zone: 7, count_id };
        assert_eq!(limits.admit_instead(1, of_zone_7), Some(0));
        assert_eq!((limits.count(), limits.zones(9)), (2, vec![(0, 1), (1, 1)]));
        // Zone 7 may have a connection again, but not a second one.
        let of_zone_0 = CountedIn { zone: 0, count_id: 0 };
        assert_eq!(limits.admit_instead(7, of_zone_0), Some(count_id));
        assert_eq!(limits.admit_instead(7, CountedIn { zone: 1, count_id: 0 }), None);
        assert_eq!((limits.count(), limits.zones(9)), (1, vec![(7, 1)]));
        // The maximum is reduced: the evicted connection gets no successor.
        assert_eq!(limits.admit(0), Admission::Counted(0));
        limits.set_max(1);
        assert_eq!(limits.admit_instead(0, of_zone_0), None);
        assert_eq!((limits.count(), limits.zones(9)), (1, vec![(7, 1)]));
    }
}
