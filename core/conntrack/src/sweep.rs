//! Connections that go without being asked: those whose time is over, and those that can be spared where there is no room.

use crate::protocol::Protocol;
use crate::tracker::{Conntrack, lock};
use std::sync::atomic::Ordering;
use units::Millis;

/// Connections that are looked at for one that can be spared: where a twentieth of them can be, 19 of 20 searches find
/// one.
const LOOKED_AT: u32 = 64;
/// Records that are passed meanwhile, which lie in a row: a few microseconds.
const PASSED: u32 = 1024;

impl Conntrack {
    /// Removes some of the connections whose time is over: every record has its turn once in the sweep interval.
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

    /// Removes a connection that has no answer yet, or closes: the first of some that are looked at in turn, so a flood
    /// that fills the table makes room for the next connections itself. Connections on which data goes stay.
    pub(crate) fn spare_one(&self, now: Millis) {
        let Some(table) = self.table.get() else { return };
        let used = table.used().max(1);
        let mut at = self.spare_from.fetch_add(LOOKED_AT, Ordering::Relaxed) % used;
        let mut looked_at = 0;
        for _ in 0..PASSED.min(used) {
            let mut spared = None;
            let next = table.scan(at, 1, |handle, record, meta| {
                looked_at += 1;
                let words = record.words(handle.generation);
                let dispensable = words.is_some_and(|w| Protocol::of_words(meta.proto(), w).is_dispensable());
                spared = (record.expires() <= now || dispensable).then_some(handle);
            });
            if spared.is_some_and(|handle| self.remove(handle)) {
                // The next search goes on behind it.
                self.spare_from.store(at + 1, Ordering::Relaxed);
                return;
            }
            if looked_at >= LOOKED_AT {
                return;
            }
            at = next;
        }
    }
}
