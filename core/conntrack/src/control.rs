//! Settings, counters, dumps and flushes; called by the control half.

use crate::SHARDS;
use crate::dump::{ConnectionSnapshot, Filter, TupleFilter};
use crate::key::Key;
use crate::limits::ZoneLimit;
use crate::table::Table;
use crate::timeout::TimeoutPolicy;
use crate::tracker::Conntrack;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use units::Millis;

impl Conntrack {
    /// Lists the connections of a zone (`None`: of all zones), sorted by key.
    pub fn dump(&self, zone: Option<u16>, now: Millis) -> Vec<ConnectionSnapshot> {
        let mut entries = Vec::new();
        self.dump_some((0, u32::MAX), zone, now, |entry| entries.push(entry));
        let order = |key: &Key| (key.zone, key.v6, key.proto, key.src, key.dst);
        entries.sort_by_key(|e| order(&e.original));
        entries
    }

    /// Calls `each` for the connections of a zone (`None`: of all zones), in at most `limit` records, beginning with record number `first`.
    /// Returns the record number to continue from; 0: there are no more. Connections that begin or end between two calls may be missing.
    pub fn dump_some(
        &self,
        (first, limit): (u32, u32),
        zone: Option<u16>,
        now: Millis,
        mut each: impl FnMut(ConnectionSnapshot),
    ) -> u32 {
        let Some(table) = self.table.get() else { return 0 };
        table.scan(first, limit, |handle, record, meta| {
            if zone.is_none_or(|z| meta.zone() == z) && record.expires() > now {
                ConnectionSnapshot::new(table, handle, now).into_iter().for_each(&mut each);
            }
        })
    }

    /// Number of connections in each shard.
    pub fn shard_lens(&self) -> Vec<usize> {
        self.table.get().map_or_else(|| vec![0; SHARDS], Table::lens)
    }

    /// Removes the connections of a zone (`None`: of all zones) that match the filter, and returns how many.
    pub fn flush(&self, zone: Option<u16>, filter: &Filter) -> usize {
        self.flush_some((0, u32::MAX), zone, filter).1
    }

    /// [`flush`](Self::flush) for at most `limit` records, beginning with number `first`. Returns the record number to continue from (0: there are
    /// no more), and the number of removed connections.
    pub fn flush_some(&self, (first, limit): (u32, u32), zone: Option<u16>, filter: &Filter) -> (u32, usize) {
        let Some(table) = self.table.get() else { return (0, 0) };
        self.remove_matching(table, (first, limit), |handle, record, meta| {
            zone.is_none_or(|z| meta.zone() == z) && filter.matches(table, handle, record)
        })
    }

    /// Removes the connection of a zone and a protocol with these endpoints, in either direction. Returns whether there was one. The index
    /// finds the connection, so the time does not depend on the number of connections.
    pub fn flush_one(&self, zone: u16, proto: u8, ends: &TupleFilter, now: Millis) -> bool {
        let Some((table, key)) = self.table.get().zip(ends.key(zone, proto)) else { return false };
        let found = table.find(key.hash(&self.key_hash), &key, now);
        found.is_some_and(|found| found.record.expires() > now && self.remove(found.handle))
    }

    /// Sets the function that wakes the main loop, which then calls [`allocate_ahead`](Self::allocate_ahead). Only the first call has an
    /// effect.
    pub fn set_memory_wake(&self, wake: Arc<dyn Fn() + Send + Sync>) {
        self.memory_request.set_wake(wake);
    }

    /// Returns whether [`allocate_ahead`](Self::allocate_ahead) has work to do.
    pub fn is_memory_requested(&self) -> bool {
        self.memory_request.is_set()
    }

    /// Allocates some memory for new connections, in 20 to 100 µs, if a worker has requested that. Returns whether there is more to allocate.
    ///
    /// **Thread**: the main loop.
    pub fn allocate_ahead(&self) -> bool {
        if !self.memory_request.is_set() {
            return false;
        }
        // Cleared first: a worker that requests more in the meantime is not missed.
        self.memory_request.set(false);
        let more = self.table.get().is_some_and(Table::allocate_ahead);
        if more {
            self.memory_request.set(true);
        }
        more
    }

    /// Number of connections, including expired ones that the sweep has not removed yet.
    pub fn count(&self) -> u32 {
        self.limits.count()
    }

    /// Maximum number of connections.
    pub fn max(&self) -> u32 {
        self.limits.max()
    }

    /// Sets the maximum number of connections. At the maximum, a new connection replaces one that is expired, has no reply yet or is
    /// closing.
    pub fn set_max(&self, max: u32) {
        self.limits.set_max(max);
    }

    /// Returns whether TCP sequence numbers are checked.
    pub fn is_strict(&self) -> bool {
        self.strict.load(Ordering::Relaxed)
    }

    /// Sets whether TCP sequence numbers are checked.
    pub fn set_strict(&self, strict: bool) {
        self.strict.store(strict, Ordering::Relaxed);
    }

    /// Time within which an expired connection is removed, in milliseconds.
    pub fn sweep_interval(&self) -> u32 {
        self.sweep_interval.load(Ordering::Relaxed)
    }

    /// Sets the [`sweep_interval`](Conntrack::sweep_interval).
    pub fn set_sweep_interval(&self, millis: u32) {
        self.sweep_interval.store(millis, Ordering::Relaxed);
    }

    /// Sets or (`None`) removes the timeout policy with this number, which must not be 0. Connections that were committed with it use the
    /// new timeouts from their next packet on.
    pub fn set_timeout_policy(&self, number: u16, policy: Option<TimeoutPolicy>) {
        self.policies.set(number, policy);
    }

    /// Sets the limit of a zone, or (`None`) the default limit, for zones without a limit of their own; a default of 0
    /// means no limit. Returns whether connections of the zone were counted before.
    pub fn set_limit(&self, zone: Option<u16>, limit: u32) -> bool {
        self.limits.set(zone, limit)
    }

    /// Removes the limit of a zone, or (`None`) the default limit, and returns whether connections of the zone were
    /// counted (for the default limit: always true).
    pub fn remove_limit(&self, zone: Option<u16>) -> bool {
        self.limits.remove(zone)
    }

    /// The limit that applies to a zone (`None`: the default limit), and the number of connections that count towards it.
    pub fn limit(&self, zone: Option<u16>) -> ZoneLimit {
        self.limits.get(zone)
    }

    /// The default limit, then the limits of zones that have their own.
    pub fn limits(&self) -> Vec<ZoneLimit> {
        self.limits.list()
    }

    /// The number of connections of a zone.
    pub fn count_of_zone(&self, zone: u16) -> u32 {
        self.limits.count_of_zone(zone)
    }

    /// Up to `max_zones` zones, those with the most connections, sorted by zone, each with its number of
    /// connections.
    pub fn zones(&self, max_zones: usize) -> Vec<(u16, u32)> {
        self.limits.zones(max_zones)
    }
}
