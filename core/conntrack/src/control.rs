//! What the switch sets, counts, lists and has forgotten.

use crate::SHARDS;
use crate::dump::{Entry, Filter};
use crate::key::Key;
use crate::limits::ZoneLimit;
use crate::table::Table;
use crate::timeout::TimeoutPolicy;
use crate::tracker::Conntrack;
use std::sync::atomic::Ordering;
use units::Millis;

impl Conntrack {
    /// The connections that there are, by zone.
    pub fn dump(&self, zone: Option<u16>, now: Millis) -> Vec<Entry> {
        let mut entries = Vec::new();
        let Some(table) = self.table.get() else { return entries };
        table.scan(0, u32::MAX, |handle, record, meta| {
            if zone.is_none_or(|z| meta.zone() == z) && record.expires() > now {
                entries.extend(Entry::new(table, handle, now));
            }
        });
        let order = |key: &Key| (key.zone, key.v6, key.proto, key.src, key.dst);
        entries.sort_by_key(|e| order(&e.original));
        entries
    }

    /// How many connections each shard has.
    pub fn shard_lens(&self) -> Vec<usize> {
        self.table.get().map_or_else(|| vec![0; SHARDS], Table::lens)
    }

    /// Forgets the connections of a zone (`None`: of all) that the filter says; how many.
    pub fn flush(&self, zone: Option<u16>, filter: &Filter) -> usize {
        let mut gone = 0;
        let Some(table) = self.table.get() else { return gone };
        table.scan(0, u32::MAX, |handle, record, meta| {
            if zone.is_none_or(|z| meta.zone() == z) && filter.matches(table, handle, record) {
                gone += usize::from(self.remove(handle));
            }
        });
        gone
    }

    /// How many connections there are, those that are to be swept included.
    pub fn count(&self) -> u32 {
        self.limits.count()
    }

    /// How many there may be.
    pub fn max(&self) -> u32 {
        self.limits.total()
    }

    /// Sets how many connections there may be. Beyond that a new one takes the place of one without an answer or closing.
    pub fn set_max(&self, max: u32) {
        self.limits.set_total(max);
    }

    /// TCP sequence numbers count, or not.
    pub fn is_strict(&self) -> bool {
        self.strict.load(Ordering::Relaxed)
    }

    /// From now on they do, or not.
    pub fn set_strict(&self, strict: bool) {
        self.strict.store(strict, Ordering::Relaxed);
    }

    /// In how many milliseconds a connection whose time is over is removed, at most.
    pub fn sweep_interval(&self) -> u32 {
        self.sweep_interval.load(Ordering::Relaxed)
    }

    /// See [`Conntrack::sweep_interval`].
    pub fn set_sweep_interval(&self, millis: u32) {
        self.sweep_interval.store(millis, Ordering::Relaxed);
    }

    /// Sets or (`None`) removes the timeout policy of a number, which is not 0. Connections that were committed with it
    /// follow with their next packet.
    pub fn set_timeout_policy(&self, number: u16, policy: Option<TimeoutPolicy>) {
        self.policies.set(number, policy);
    }

    /// Limits a zone, or (`None`) each zone that has no limit of its own; there 0 is no limit. Whether it counted
    /// its connections before.
    pub fn set_limit(&self, zone: Option<u16>, limit: u32) -> bool {
        self.limits.set(zone, limit)
    }

    /// Removes a limit; whether there was one.
    pub fn remove_limit(&self, zone: Option<u16>) -> bool {
        self.limits.remove(zone)
    }

    /// The limit that a zone is held to, and how many connections count towards it.
    pub fn limit(&self, zone: Option<u16>) -> ZoneLimit {
        self.limits.get(zone)
    }

    /// The default limit, then those of zones that have their own.
    pub fn limits(&self) -> Vec<ZoneLimit> {
        self.limits.all()
    }
}
