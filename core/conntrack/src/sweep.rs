//! Removal of expired connections, and of dispensable ones when the table is full.

use crate::protocol::Protocol;
use crate::tracker::{Conntrack, lock};
use std::sync::atomic::Ordering;
use units::Millis;

/// Maximum number of connections that an eviction examines. If one of 20 connections is dispensable, 64 are enough in 96 % of the
/// evictions (1 - 0.95^64).
const CONNECTIONS_MAX: u32 = 64;
/// Maximum number of records that an eviction visits, free ones included: a few microseconds.
const RECORDS_MAX: u32 = 1024;

impl Conntrack {
    /// Removes some of the expired connections: each record is visited once per sweep interval.
    pub fn sweep(&self, now: Millis) {
        let mut sweep = lock(&self.sweep);
        let since = now.since(sweep.last.unwrap_or(now));
        let Some(table) = self.table.get() else {
            sweep.last = Some(now);
            return;
        };
        let interval = u64::from(self.sweep_interval().max(1));
        let used = u64::from(table.used());
        let due = used.min((since.0 * used).div_ceil(interval)) as u32;
        if due == 0 && sweep.last.is_some() {
            return;
        }
        sweep.last = Some(now);
        let mut left = due;
        while left > 0 {
            let from = sweep.at;
            sweep.at = table.scan(from, left, |handle, record, _| {
                if record.expires() <= now {
                    self.remove(handle);
                }
            });
            let end = if sweep.at == 0 { table.used() } else { sweep.at };
            left = left.saturating_sub(end.saturating_sub(from).max(1));
        }
    }

    /// Evicts a connection that has no reply yet or is closing: the first one found, searching from where the
    /// last search ended. So a flood that fills the table evicts its own connections. Established connections
    /// stay.
    pub(crate) fn evict_one(&self, now: Millis) {
        let Some(table) = self.table.get() else { return };
        let used = table.used().max(1);
        let mut at = self.evict_from.fetch_add(CONNECTIONS_MAX, Ordering::Relaxed) % used;
        let mut connections = 0;
        for _ in 0..RECORDS_MAX.min(used) {
            let mut victim = None;
            let next = table.scan(at, 1, |handle, record, meta| {
                connections += 1;
                let words = record.words(handle.generation);
                let dispensable = words.is_some_and(|w| Protocol::of_words(meta.proto(), w).is_dispensable());
                victim = (record.expires() <= now || dispensable).then_some(handle);
            });
            if victim.is_some_and(|handle| self.remove(handle)) {
                // The next search continues after it.
                self.evict_from.store(at + 1, Ordering::Relaxed);
                return;
            }
            if connections >= CONNECTIONS_MAX {
                return;
            }
            at = next;
        }
    }
}
