//! Connection sweep (removal of expired connections), and eviction of dispensable connections when the table is full.

use crate::limits::CountedIn;
use crate::protocol::Protocol;
use crate::record::{Meta, Record};
use crate::table::{Handle, Table};
use crate::tracker::{Conntrack, lock};
use std::sync::atomic::Ordering;
use units::Millis;

/// Maximum number of connections that an eviction examines. If one of 20 connections is dispensable, 64 are enough in 96 % of the
/// evictions (1 - 0.95^64).
const CONNECTIONS_MAX: u32 = 64;
/// Maximum number of records that an eviction visits, including free ones: a few microseconds.
const RECORDS_MAX: u32 = 1024;

/// Number of records that are read before the matching ones are removed, so that the cache misses of several removals overlap.
const REMOVAL_BATCH: u32 = 16;

impl Conntrack {
    /// Visits all records that are due and removes the expired connections among them. Each record is due once per sweep interval.
    pub fn sweep(&self, now: Millis) {
        self.begin_sweep(now);
        while self.sweep_some(u32::MAX, now) {}
    }

    /// Computes how many records are due at `now`. [`sweep_some`](Self::sweep_some) visits them.
    pub fn begin_sweep(&self, now: Millis) {
        let mut sweep = lock(&self.sweep);
        let since = now.since(sweep.computed_at.unwrap_or(now));
        let Some(table) = self.table.get() else {
            sweep.computed_at = Some(now);
            return;
        };
        let interval = u64::from(self.sweep_interval().max(1));
        let used = u64::from(table.used());
        let due = used.min((since.0 * used).div_ceil(interval)) as u32;
        if due != 0 || sweep.computed_at.is_none() {
            sweep.computed_at = Some(now);
            sweep.due = sweep.due.saturating_add(due).min(table.used());
        }
    }

    /// Visits at most `most` of the records that are due, and removes expired connections. Returns whether more records are due.
    pub fn sweep_some(&self, most: u32, now: Millis) -> bool {
        let mut sweep = lock(&self.sweep);
        let Some(table) = self.table.get() else { return false };
        let (from, most) = (sweep.next, most.min(sweep.due));
        if most == 0 {
            return false;
        }
        let (next, _) = self.remove_matching(table, (from, most), |_, record, _| record.expires() <= now);
        let visited = if next == 0 { table.used() } else { next }.saturating_sub(from).max(1);
        sweep.next = next;
        sweep.due = sweep.due.saturating_sub(visited);
        sweep.due != 0
    }

    /// Returns whether records are due.
    pub fn is_sweeping(&self) -> bool {
        lock(&self.sweep).due != 0
    }

    /// Removes the connections for which `is` returns true, among at most `most` records from number `first` on. Returns the record number
    /// to continue from (0: there are no more), and the number of removed connections.
    pub(crate) fn remove_matching(
        &self,
        table: &Table,
        (first, most): (u32, u32),
        mut is: impl FnMut(Handle, &Record, Meta) -> bool,
    ) -> (u32, usize) {
        let (mut at, mut left, mut gone) = (first, most, 0);
        let mut ended = Vec::with_capacity(REMOVAL_BATCH as usize);
        while left > 0 {
            let some = left.min(REMOVAL_BATCH);
            at = table.scan(at, some, |handle, record, meta| {
                if is(handle, record, meta) {
                    table.prefetch_removal(record);
                    ended.push(handle);
                }
            });
            gone += ended.drain(..).filter(|handle| self.remove(*handle)).count();
            left -= some;
            if at == 0 {
                break;
            }
        }
        (at, gone)
    }

    /// Evicts one connection that is expired, has no reply yet or is closing: the first one found, searching from where the last search
    /// ended. So a flood that fills the table evicts its own connections, and established connections stay. The evicted connection still
    /// counts towards the limits, so that no other thread uses its place.
    pub(crate) fn evict_one(&self, now: Millis) -> Option<CountedIn> {
        let table = self.table.get()?;
        let used = table.used().max(1);
        let mut at = self.evict_from.fetch_add(CONNECTIONS_MAX, Ordering::Relaxed) % used;
        let mut connections = 0;
        for _ in 0..RECORDS_MAX.min(used) {
            let mut victim = None;
            let next = table.scan(at, 1, |handle, record, meta| {
                connections += 1;
                let words = record.state_words(handle.generation);
                let dispensable = words.is_some_and(|w| Protocol::of_words(meta.proto(), w).is_dispensable());
                victim = (record.expires() <= now || dispensable).then_some(handle);
            });
            if let Some(place) = victim.and_then(|handle| self.remove_keeping_count(handle)) {
                // The next search begins after the evicted connection.
                self.evict_from.store(at + 1, Ordering::Relaxed);
                return Some(place);
            }
            if connections >= CONNECTIONS_MAX {
                return None;
            }
            at = next;
        }
        None
    }
}
