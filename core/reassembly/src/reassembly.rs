//! `Reassembly`: the table of fragments that all threads share.
//!
//! **Threads**: any. Adding a fragment takes one lock for a look-up and an insertion, a fraction of a microsecond. The lock is not held
//! while a complete datagram is assembled. Packets that are not fragments do not use this crate.

use crate::datagram::Datagram;
use crate::header::{Fragment, PacketKind, read};
use crate::key::Origin;
use crate::settings::{Counter, Family, Settings, Status};
use crate::table::{AddResult, Removal, Removed, Table, TableRefusal};
use crate::text::Entry;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use units::Millis;

/// Number of bytes of an oversized datagram that are kept for the log.
const OVERSIZE_HEAD_LEN: usize = 128;

/// A datagram that was too long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Oversize {
    /// The datagram is an IPv6 datagram.
    pub v6: bool,
    /// The first bytes of the datagram, from the network header on.
    pub head: Vec<u8>,
}

/// The waiting fragments of all threads. `T` is what the caller stores with each fragment.
#[derive(Debug)]
pub struct Reassembly<T> {
    settings: Settings,
    /// Number of waiting fragments after the last change.
    fragments: AtomicU32,
    table: Mutex<Table<T>>,
    /// The latest oversized datagram, until the log has reported it.
    oversize: Mutex<Option<Oversize>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn family(v6: bool) -> Family {
    if v6 { Family::V6 } else { Family::V4 }
}

impl<T> Reassembly<T> {
    /// Makes an empty table. `seed` must be random and secret.
    pub fn new(seed: u64) -> Reassembly<T> {
        Reassembly {
            settings: Settings::default(),
            fragments: AtomicU32::new(0),
            table: Mutex::new(Table::new(cpu::siphash_key(seed))),
            oversize: Mutex::default(),
        }
    }

    /// Reads a packet from its network header on. Returns a fragment to [`add`](Reassembly::add). `None`: the packet is not a valid
    /// fragment, the fragment is too small, or reassembly is disabled; the packet is tracked as it is.
    pub fn read(&self, dl_type: u16, l3: &[u8]) -> Option<Fragment> {
        let PacketKind::Fragment(fragment) = read(dl_type, l3) else { return None };
        let settings = self.settings.of(family(fragment.v6));
        if !settings.is_enabled() {
            return None;
        }
        if fragment.more && fragment.size() < settings.min_size() {
            settings.count(Counter::TooSmall, 1);
            return None;
        }
        Some(fragment)
    }

    /// Adds a fragment. Fragments that this call removes, because they have expired or are evicted, are appended to `removed`.
    pub fn add(
        &self,
        fragment: &Fragment,
        origin: &Origin,
        content: T,
        now: Millis,
        removed: &mut Vec<Removed<T>>,
    ) -> AddResult<T> {
        let max = self.settings.max_fragments();
        let mut table = lock(&self.table);
        let (result, problem) = table.add(fragment, origin, content, (max, now), removed);
        self.fragments.store(table.fragments(), Ordering::Relaxed);
        drop(table);
        let settings = self.settings.of(family(fragment.v6));
        match (&result, problem) {
            (AddResult::Refused(_), Some(TableRefusal::Overlap)) => settings.count(Counter::Overlapped, 1),
            (AddResult::Refused(_), _) => {}
            _ => settings.count(Counter::Accepted, 1),
        }
        match &result {
            AddResult::Complete(datagram) => settings.count(Counter::Completed, datagram.parts.len() as u64),
            AddResult::TooLong(datagram) => settings.count(Counter::Purged, datagram.parts.len() as u64),
            _ => {}
        }
        self.count_removed_fragments(removed);
        result
    }

    fn count_removed_fragments(&self, removed: &[Removed<T>]) {
        for one in removed {
            let what = if one.why == Removal::Expired { Counter::Expired } else { Counter::Purged };
            self.settings.of(family(one.v6)).count(what, 1);
        }
    }

    /// Removes datagrams that expired at least 10 s ago: no arriving fragment has removed them. Call this about once a second.
    pub fn purge(&self, now: Millis) -> Vec<Removed<T>> {
        self.remove(|table, removed| table.purge(now, removed))
    }

    /// Removes the datagrams whose first received fragment came from this port.
    pub fn forget_port(&self, port: u32) -> Vec<Removed<T>> {
        self.remove(|table, removed| table.forget_port(port, removed))
    }

    fn remove(&self, remove: impl FnOnce(&mut Table<T>, &mut Vec<Removed<T>>)) -> Vec<Removed<T>> {
        let mut removed = Vec::new();
        if self.fragments() == 0 {
            return removed;
        }
        let mut table = lock(&self.table);
        remove(&mut table, &mut removed);
        self.fragments.store(table.fragments(), Ordering::Relaxed);
        drop(table);
        self.count_removed_fragments(&removed);
        removed
    }

    /// Records an oversized datagram, for the log.
    pub fn note_oversize(&self, datagram: &Datagram<T>, l3: &[u8]) {
        let head = l3.get(..OVERSIZE_HEAD_LEN).unwrap_or(l3).to_vec();
        *lock(&self.oversize) = Some(Oversize { v6: datagram.v6, head });
    }

    /// Returns and forgets the latest oversized datagram.
    pub fn take_oversize(&self) -> Option<Oversize> {
        lock(&self.oversize).take()
    }

    /// The incomplete datagrams, the oldest first.
    pub fn dump(&self) -> Vec<Entry> {
        lock(&self.table).iter().map(Entry::of).collect()
    }

    /// Number of waiting fragments.
    pub fn fragments(&self) -> u32 {
        self.fragments.load(Ordering::Relaxed)
    }

    /// Maximum number of waiting fragments.
    pub fn max_fragments(&self) -> u32 {
        self.settings.max_fragments()
    }

    /// Settings and counters.
    pub fn status(&self) -> Status {
        self.settings.status(self.fragments())
    }

    /// Sets the maximum number of waiting fragments. `false`: `max` is more than can be set (5,000).
    pub fn set_max_fragments(&self, max: u32) -> bool {
        self.settings.set_max_fragments(max)
    }

    /// Enables or disables reassembly for an IP version. If it is disabled, fragments are invalid.
    pub fn set_enabled(&self, family: Family, enabled: bool) {
        self.settings.set_enabled(family, enabled);
    }

    /// Sets the minimum size, in bytes, of fragments other than the last. `false`: `bytes` is less than can be set (400).
    pub fn set_min_size(&self, family: Family, bytes: u32) -> bool {
        self.settings.set_min_size(family, bytes)
    }

    #[cfg(test)]
    pub(crate) fn audit(&self) {
        lock(&self.table).audit();
    }
}
