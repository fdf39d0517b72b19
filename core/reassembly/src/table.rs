//! All incomplete datagrams.

use crate::chain::{Chain, Links, NONE, Places};
use crate::datagram::{Datagram, Refusal, Waiting};
use crate::header::Fragment;
use crate::key::{Key, Origin};
use crate::shares::{Shares, Source};
use cpu::prehashed::ByHash;
use units::Millis;

/// How long a datagram waits for its fragments.
pub(crate) const TIMEOUT: Millis = Millis::from_secs(15);
/// Age at which a datagram is removed if no later fragment has removed it.
pub(crate) const PURGE_AFTER: Millis = Millis::from_secs(25);
/// Average memory per fragment in bytes that is allowed. A fragment is rarely longer than 1,500 bytes.
pub const BYTES_PER_FRAGMENT: u64 = 4096;
/// Number of expired datagrams that one fragment removes: more than it can begin.
const EXPIRED_AT_ONCE: usize = 2;
/// Maximum length of a reassembled frame, with its Ethernet header, as in Open vSwitch.
const FRAME_MAX: u32 = 65_535;

/// Result of adding a fragment.
#[derive(Debug)]
pub enum PutResult<T> {
    /// The fragment was stored.
    Waits,
    /// The fragment is returned: it overlaps another one, or the table is full and its sender holds the most fragments.
    Refused(T),
    /// It completed its datagram.
    Complete(Datagram<T>),
    /// It completed its datagram, which is too long.
    TooLong(Datagram<T>),
}

/// The reason why a fragment was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// Its datagram was not completed in time.
    Expired,
    /// Its datagram was not completed in time, and no fragment that arrived in the next ten seconds removed
    /// it.
    Purged,
    /// It was removed for a newer fragment.
    Evicted,
}

/// A fragment that was removed.
#[derive(Debug)]
pub struct Removed<T> {
    /// The stored content.
    pub content: T,
    /// The reason.
    pub why: Removal,
    /// It is one of IPv6.
    pub v6: bool,
}

/// The reason why a fragment is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Problem {
    Overlap,
    TableFull,
}

#[derive(Debug)]
struct Entry<T> {
    waiting: Waiting<T>,
    source: u32,
}

/// The table of incomplete datagrams.
#[derive(Debug)]
pub(crate) struct Table<T> {
    secret: [u64; 2],
    by_key: ByHash<Key, u32>,
    entries: Places<Entry<T>>,
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
            entries: Places::default(),
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

    /// Adds a fragment. Fragments that are removed because of it are added to `removed`. `max`: the maximum
    /// number of fragments.
    pub(crate) fn put(
        &mut self,
        f: &Fragment,
        origin: &Origin,
        content: T,
        (max, now): (u32, Millis),
        removed: &mut Vec<Removed<T>>,
    ) -> (PutResult<T>, Option<Problem>) {
        self.expire(now, EXPIRED_AT_ONCE, removed);
        let key = Key::of(self.secret, f, origin);
        let found = self.by_key.get(&key).copied();
        let entry = found.and_then(|at| self.entries.get(at));
        let place = match entry.map_or(Ok(0), |entry| entry.waiting.place(f)) {
            Ok(place) => place,
            Err(Refusal::Overlap) => return (PutResult::Refused(content), Some(Problem::Overlap)),
            Err(Refusal::Full) => return (PutResult::Refused(content), Some(Problem::TableFull)),
        };
        // A fragment that completes its datagram is accepted even if the table is full.
        let completes = entry.is_some_and(|entry| entry.waiting.is_completed_by(f));
        if !completes && !self.make_room(max, origin.memory, found, removed) {
            return (PutResult::Refused(content), Some(Problem::TableFull));
        }
        let at = found.unwrap_or_else(|| self.begin(key, origin.port, now));
        let Some(Entry { waiting, source }) = self.entries.get_mut(at) else {
            return (PutResult::Refused(content), Some(Problem::TableFull));
        };
        waiting.insert(place, f, content, origin.memory);
        self.fragments += 1;
        self.memory += u64::from(origin.memory);
        self.shares.add(*source, 1);
        if !waiting.is_complete() {
            return (PutResult::Waits, None);
        }
        let Some(Waiting { parts, key, .. }) = self.remove(at) else { return (PutResult::Waits, None) };
        let (first, last) = (parts.first(), parts.last());
        let len = first.map_or(0, |p| p.at) + last.map_or(0, |p| p.start + p.len);
        let datagram = Datagram { v6: key.v6, parts };
        match origin.front + len <= FRAME_MAX {
            true => (PutResult::Complete(datagram), None),
            false => (PutResult::TooLong(datagram), None),
        }
    }

    fn begin(&mut self, key: Key, port: u32, now: Millis) -> u32 {
        let at = self.entries.insert(Entry { waiting: Waiting::new(key, now), source: NONE });
        let source = Source { port, v6: key.v6, address: key.src };
        let source = self.shares.begin(self.secret, source, at);
        if let Some(entry) = self.entries.get_mut(at) {
            entry.source = source;
        }
        self.by_key.insert(key, at);
        self.ages.push(&mut self.by_age, at);
        at
    }

    /// Removes datagrams until one more fragment can be stored. `false`: the next one to remove would be that
    /// of the fragment itself.
    fn make_room(&mut self, max: u32, memory: u32, own: Option<u32>, removed: &mut Vec<Removed<T>>) -> bool {
        let most = u64::from(max) * BYTES_PER_FRAGMENT;
        while self.fragments >= max || self.memory + u64::from(memory) > most {
            match self.shares.victim() {
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

    /// Removes expired datagrams that no fragment has removed.
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
                let since = now.since(entry.waiting.since);
                if why == Removal::Purged { since >= age } else { since > age }
            };
            if !self.entries.get(at).is_some_and(is_over) {
                return;
            }
            self.discard(at, why, removed);
        }
    }

    /// Removes all datagrams whose first received fragment came from a port.
    pub(crate) fn forget_port(&mut self, port: u32, removed: &mut Vec<Removed<T>>) {
        while let Some(at) = self.shares.oldest_of(port) {
            self.discard(at, Removal::Purged, removed);
        }
    }

    fn discard(&mut self, at: u32, why: Removal, removed: &mut Vec<Removed<T>>) {
        let Some(Waiting { parts, key, .. }) = self.remove(at) else { return };
        removed.extend(parts.into_iter().map(|p| Removed { content: p.content, why, v6: key.v6 }));
    }

    fn remove(&mut self, at: u32) -> Option<Waiting<T>> {
        let Entry { waiting, source } = self.entries.remove(at)?;
        self.by_key.remove(&waiting.key);
        self.ages.remove(&mut self.by_age, at);
        self.shares.end(source, at, waiting.parts.len() as u32);
        self.fragments -= waiting.parts.len() as u32;
        self.memory -= waiting.parts.iter().map(|p| u64::from(p.memory)).sum::<u64>();
        Some(waiting)
    }

    /// Incomplete datagrams, the oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Waiting<T>> {
        let at = |at: u32| self.entries.get(at).map(|entry| (at, entry));
        std::iter::successors(at(self.by_age.first), move |(here, _)| at(self.ages.after(*here)))
            .map(|(_, entry)| &entry.waiting)
    }

    /// Checks that all counts are consistent.
    #[cfg(test)]
    pub(crate) fn audit(&self) {
        let parts = || self.iter().flat_map(|w| &w.parts);
        assert_eq!(self.fragments as usize, parts().count());
        assert_eq!(self.memory, parts().map(|p| u64::from(p.memory)).sum::<u64>());
        assert_eq!(self.by_key.len(), self.iter().count());
        assert_eq!(self.shares.is_empty(), self.fragments == 0);
    }
}
