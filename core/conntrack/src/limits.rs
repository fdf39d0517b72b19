//! How many connections there may be, of all zones together and of each.
//!
//! **Threads**: workers ask for a place for each new connection. The zones' limits are behind a lock that readers
//! share; a flag spares them even that where no zone has one.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// As many connections as Open vSwitch has places for.
const TOTAL: u32 = 3_000_000;

/// The limit of a zone (`zone` is `None`: of all that have none of their own).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct ZoneLimit {
    pub zone: Option<u16>,
    pub limit: u32,
    /// Connections since the zone has a limit.
    pub count: u32,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Limits {
    total: AtomicU32,
    count: AtomicU32,
    zones_limited: AtomicBool,
    zones: RwLock<Zones>,
}

#[derive(Debug, Default)]
struct Zones {
    /// 0: none.
    default: u32,
    zones: BTreeMap<u16, Zone>,
    /// The number of the count that was begun last.
    last: u32,
}

#[derive(Debug)]
struct Zone {
    /// `None`: the default.
    limit: Option<u32>,
    count: AtomicU32,
    /// Tells this count from those that the zone had before: a connection is in one of them.
    number: u32,
}

/// What a new connection counts towards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// The total, and this count of its zone; 0: none.
    Counted(u32),
    /// There is no place in its zone.
    ZoneFull,
    /// There is no place at all.
    Full,
}

/// Counts one more, unless there are `most`.
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
        }
    }
}

impl Limits {
    /// A place for one more connection of a zone, if there is one.
    pub(crate) fn admit(&self, zone: u16) -> Admission {
        let number = match self.zones_limited.load(Ordering::Relaxed) {
            true => match self.admit_to_zone(zone) {
                Some(number) => number,
                None => return Admission::ZoneFull,
            },
            false => 0,
        };
        if take(&self.count, self.total()) {
            return Admission::Counted(number);
        }
        self.leave_zone(zone, number);
        Admission::Full
    }

    /// The place of a connection is free again.
    pub(crate) fn leave(&self, zone: u16, number: u32) {
        self.count.fetch_sub(1, Ordering::Relaxed);
        self.leave_zone(zone, number);
    }

    fn leave_zone(&self, zone: u16, number: u32) {
        if number == 0 {
            return;
        }
        if let Some(z) = self.read().zones.get(&zone).filter(|z| z.number == number) {
            z.count.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// The zone's count; 0: it has no limit. `None`: it is full.
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
        // It is counted from now on.
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

    /// Connections that there are.
    pub(crate) fn count(&self) -> u32 {
        self.count.load(Ordering::Relaxed)
    }

    /// As many as there may be.
    pub(crate) fn total(&self) -> u32 {
        self.total.load(Ordering::Relaxed)
    }

    pub(crate) fn set_total(&self, total: u32) {
        self.total.store(total, Ordering::Relaxed);
    }

    /// Sets a limit; a default of 0 is none. Whether the zone counted its connections before.
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

    /// Removes a limit. A zone without one is held to the default, if there is one. Whether there was one.
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

    /// The limit that a zone is held to.
    pub(crate) fn get(&self, zone: Option<u16>) -> ZoneLimit {
        let zones = self.read();
        let found = zone.and_then(|zone| zones.zones.get(&zone));
        ZoneLimit {
            zone,
            limit: found.and_then(|z| z.limit).unwrap_or(zones.default),
            count: found.map_or(0, |z| z.count.load(Ordering::Relaxed)),
        }
    }

    /// The default, then the zones that have a limit of their own.
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
    /// Begins to count a zone's connections, if they are not counted.
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
