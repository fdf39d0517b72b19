//! The table of all incomplete datagrams.

use crate::chain::{Chain, Links, NONE, Slots};
use crate::datagram::{Datagram, IncompleteDatagram, Refusal};
use crate::header::Fragment;
use crate::key::{Key, Origin};
use crate::shares::{Shares, Source};
use cpu::prehashed::ByHash;
use units::Millis;

/// Time after which an incomplete datagram is expired.
pub(crate) const TIMEOUT: Millis = Millis::from_secs(15);
/// Age at which [`Table::purge`] removes a datagram, if no arriving fragment has removed it.
pub(crate) const PURGE_AFTER: Millis = Millis::from_secs(25);
/// Maximum average memory per fragment, in bytes. A fragment is rarely longer than 1,500 bytes.
pub const BYTES_PER_FRAGMENT: u64 = 4096;
/// Maximum number of expired datagrams that one arriving fragment removes. A fragment begins at most one datagram, so the number of expired
/// datagrams shrinks.
const EXPIRED_AT_ONCE: usize = 2;
/// Maximum length of a reassembled frame in bytes, with its Ethernet header, as in Open vSwitch.
const FRAME_MAX: u32 = 65_535;

/// Result of adding a fragment.
#[derive(Debug)]
pub enum AddResult<T> {
    /// The fragment was stored.
    Stored,
    /// The fragment was refused and is returned: it overlaps another one, its datagram has too many fragments, or the table is full and its
    /// own datagram would be the next one to evict.
    Refused(T),
    /// The fragment completed its datagram.
    Complete(Datagram<T>),
    /// The fragment completed its datagram, which is too long.
    TooLong(Datagram<T>),
}

/// The reason why a fragment was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// Its datagram was not completed in time.
    Expired,
    /// Its datagram was not completed in time, and no fragment that arrived in the next 10 s removed it; or its port was removed.
    Purged,
    /// Its datagram was evicted to make space for a newer fragment.
    Evicted,
}

/// A fragment that was removed.
#[derive(Debug)]
pub struct Removed<T> {
    /// What the caller had stored with the fragment.
    pub content: T,
    /// Why the fragment was removed.
    pub why: Removal,
    /// The fragment is an IPv6 fragment.
    pub v6: bool,
}

/// Why the table refuses a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TableRefusal {
    Overlap,
    /// The table is full, or the datagram has too many fragments.
    NoSpace,
}

#[derive(Debug)]
struct Entry<T> {
    incomplete: IncompleteDatagram<T>,
    /// The slot of the datagram's source in `shares`.
    source_slot: u32,
}

/// The table of incomplete datagrams.
#[derive(Debug)]
pub(crate) struct Table<T> {
    secret: [u64; 2],
    by_key: ByHash<Key, u32>,
    entries: Slots<Entry<T>>,
    ages: Links,
    by_age: Chain,
    shares: Shares,
    fragments: u32,
    memory: u64,
}

impl<T> Table<T> {
    pub(crate) fn new(secret: [u64; 2]) -> Table<T> {
        Table {
            secret,
            by_key: ByHash::default(),
            entries: Slots::default(),
            ages: Links::default(),
            by_age: Chain::default(),
            shares: Shares::default(),
            fragments: 0,
            memory: 0,
        }
    }

    /// Number of waiting fragments.
    pub(crate) fn fragments(&self) -> u32 {
        self.fragments
    }

    /// Adds a fragment. Fragments that this call removes, because they have expired or are evicted, are appended to `removed`. `max`: the
    /// maximum number of fragments.
    pub(crate) fn add(
        &mut self,
        f: &Fragment,
        origin: &Origin,
        content: T,
        (max, now): (u32, Millis),
        removed: &mut Vec<Removed<T>>,
    ) -> (AddResult<T>, Option<TableRefusal>) {
        self.expire(now, EXPIRED_AT_ONCE, removed);
        let key = Key::of(self.secret, f, origin);
        let found = self.by_key.get(&key).copied();
        let entry = found.and_then(|at| self.entries.get(at));
        let index = match entry.map_or(Ok(0), |entry| entry.incomplete.index_for(f)) {
            Ok(index) => index,
            Err(Refusal::Overlap) => return (AddResult::Refused(content), Some(TableRefusal::Overlap)),
            Err(Refusal::Full) => return (AddResult::Refused(content), Some(TableRefusal::NoSpace)),
        };
        // A fragment that completes its datagram is accepted even if the table is full.
        let completes = entry.is_some_and(|entry| entry.incomplete.is_completed_by(f));
        if !completes && !self.evict_for(max, origin.memory, found, removed) {
            return (AddResult::Refused(content), Some(TableRefusal::NoSpace));
        }
        let at = found.unwrap_or_else(|| self.begin(key, origin.port, now));
        let Some(Entry { incomplete, source_slot }) = self.entries.get_mut(at) else {
            return (AddResult::Refused(content), Some(TableRefusal::NoSpace));
        };
        incomplete.insert(index, f, content, origin.memory);
        self.fragments += 1;
        self.memory += u64::from(origin.memory);
        self.shares.add_fragments(*source_slot, 1);
        if !incomplete.is_complete() {
            return (AddResult::Stored, None);
        }
        let Some(IncompleteDatagram { parts, key, .. }) = self.remove(at) else {
            return (AddResult::Stored, None);
        };
        let (first, last) = (parts.first(), parts.last());
        let len = first.map_or(0, |p| p.at) + last.map_or(0, |p| p.start + p.len);
        let datagram = Datagram { v6: key.v6, parts };
        match origin.l3_offset + len <= FRAME_MAX {
            true => (AddResult::Complete(datagram), None),
            false => (AddResult::TooLong(datagram), None),
        }
    }

    /// Adds a datagram without fragments; returns its slot number.
    fn begin(&mut self, key: Key, port: u32, now: Millis) -> u32 {
        let at =
            self.entries.insert(Entry { incomplete: IncompleteDatagram::new(key, now), source_slot: NONE });
        let source = Source { port, v6: key.v6, address: key.src };
        let source_slot = self.shares.add_datagram(self.secret, source, at);
        if let Some(entry) = self.entries.get_mut(at) {
            entry.source_slot = source_slot;
        }
        self.by_key.insert(key, at);
        self.ages.push(&mut self.by_age, at);
        at
    }

    /// Evicts datagrams until a fragment with `memory` bytes can be stored. `own`: the datagram of the fragment. `false`: the next datagram
    /// to evict would be `own`, or there is none.
    fn evict_for(&mut self, max: u32, memory: u32, own: Option<u32>, removed: &mut Vec<Removed<T>>) -> bool {
        let most = u64::from(max) * BYTES_PER_FRAGMENT;
        while self.fragments >= max || self.memory + u64::from(memory) > most {
            match self.shares.datagram_to_evict() {
                Some(at) if Some(at) != own => self.discard(at, Removal::Evicted, removed),
                _ => return false,
            }
        }
        true
    }

    /// Removes up to `most` of the oldest expired datagrams.
    fn expire(&mut self, now: Millis, most: usize, removed: &mut Vec<Removed<T>>) {
        self.remove_older(now, TIMEOUT, most, Removal::Expired, removed);
    }

    /// Removes datagrams that are at least [`PURGE_AFTER`] old.
    pub(crate) fn purge(&mut self, now: Millis, removed: &mut Vec<Removed<T>>) {
        self.remove_older(now, PURGE_AFTER, usize::MAX, Removal::Purged, removed);
    }

    fn remove_older(
        &mut self,
        now: Millis,
        age: Millis,
        most: usize,
        why: Removal,
        removed: &mut Vec<Removed<T>>,
    ) {
        for _ in 0..most {
            let at = self.by_age.first;
            let is_over = |entry: &Entry<T>| {
                let since = now.since(entry.incomplete.since);
                if why == Removal::Purged { since >= age } else { since > age }
            };
            if !self.entries.get(at).is_some_and(is_over) {
                return;
            }
            self.discard(at, why, removed);
        }
    }

    /// Removes all datagrams whose first received fragment came from this port.
    pub(crate) fn forget_port(&mut self, port: u32, removed: &mut Vec<Removed<T>>) {
        while let Some(at) = self.shares.oldest_of(port) {
            self.discard(at, Removal::Purged, removed);
        }
    }

    fn discard(&mut self, at: u32, why: Removal, removed: &mut Vec<Removed<T>>) {
        let Some(IncompleteDatagram { parts, key, .. }) = self.remove(at) else { return };
        removed.extend(parts.into_iter().map(|p| Removed { content: p.content, why, v6: key.v6 }));
    }

    fn remove(&mut self, at: u32) -> Option<IncompleteDatagram<T>> {
        let Entry { incomplete, source_slot } = self.entries.remove(at)?;
        self.by_key.remove(&incomplete.key);
        self.ages.remove(&mut self.by_age, at);
        self.shares.remove_datagram(source_slot, at, incomplete.parts.len() as u32);
        self.fragments -= incomplete.parts.len() as u32;
        self.memory -= incomplete.parts.iter().map(|p| u64::from(p.memory)).sum::<u64>();
        Some(incomplete)
    }

    /// The incomplete datagrams, the oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &IncompleteDatagram<T>> {
        let at = |at: u32| self.entries.get(at).map(|entry| (at, entry));
        std::iter::successors(at(self.by_age.first), move |(here, _)| at(self.ages.after(*here)))
            .map(|(_, entry)| &entry.incomplete)
    }

    /// Checks that all counts are consistent with the stored fragments.
    #[cfg(test)]
    pub(crate) fn audit(&self) {
        let parts = || self.iter().flat_map(|w| &w.parts);
        assert_eq!(self.fragments as usize, parts().count());
        assert_eq!(self.memory, parts().map(|p| u64::from(p.memory)).sum::<u64>());
        assert_eq!(self.by_key.len(), self.iter().count());
        assert_eq!(self.shares.is_empty(), self.fragments == 0);
    }
}
