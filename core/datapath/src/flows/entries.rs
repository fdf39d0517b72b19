//! Entries of the publisher, indexed by megaflow index.
//!
//! Entries are stored in chunks, so that growth of the table does not move entries while the lock is held. Columns that
//! are scanned over all entries (last use, dependency sets, matched addresses) are separate arrays.

use super::entry::Entry;
use classifier::megaflow::AddressMatch;
use std::ops::Range;
use units::Millis;

pub(super) const CHUNK: usize = 1024;

struct Chunk {
    /// Time of the last use, or of the creation; `NEVER` for a megaflow of a command that no packet has used.
    used: Box<[Millis]>,
    dependency_sets: Box<[u32]>,
    address_matches: Box<[AddressMatch]>,
    entries: Box<[Option<Box<Entry>>]>,
}

impl Chunk {
    fn new() -> Chunk {
        Chunk {
            used: vec![Millis::NEVER; CHUNK].into(),
            dependency_sets: vec![0; CHUNK].into(),
            address_matches: vec![AddressMatch::default(); CHUNK].into(),
            entries: std::iter::repeat_with(|| None).take(CHUNK).collect(),
        }
    }
}

#[derive(Default)]
pub(super) struct Entries {
    chunks: Vec<Chunk>,
    len: usize,
}

impl Entries {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Exclusive upper bound of the indices.
    pub(super) fn end(&self) -> u32 {
        (self.chunks.len() * CHUNK) as u32
    }

    fn at(&self, index: u32) -> Option<(&Chunk, usize)> {
        Some((self.chunks.get(index as usize / CHUNK)?, index as usize % CHUNK))
    }

    fn at_mut(&mut self, index: u32) -> Option<(&mut Chunk, usize)> {
        Some((self.chunks.get_mut(index as usize / CHUNK)?, index as usize % CHUNK))
    }

    pub(super) fn get(&self, index: u32) -> Option<&Entry> {
        let (chunk, at) = self.at(index)?;
        chunk.entries[at].as_deref()
    }

    pub(super) fn get_mut(&mut self, index: u32) -> Option<&mut Entry> {
        let (chunk, at) = self.at_mut(index)?;
        chunk.entries[at].as_deref_mut()
    }

    /// Returns the time of the last use, as of the last fold.
    pub(super) fn used(&self, index: u32) -> Millis {
        self.at(index).map_or(Millis::NEVER, |(chunk, at)| chunk.used[at])
    }

    pub(super) fn set_used(&mut self, index: u32, used: Millis) {
        if let Some((chunk, at)) = self.at_mut(index) {
            chunk.used[at] = used;
        }
    }

    /// Returns the dependency set of an entry.
    pub(super) fn dependency_set(&self, index: u32) -> u32 {
        self.at(index).map_or(0, |(chunk, at)| chunk.dependency_sets[at])
    }

    pub(super) fn set_dependency_set(&mut self, index: u32, dependency_set: u32) {
        if let Some((chunk, at)) = self.at_mut(index) {
            chunk.dependency_sets[at] = dependency_set;
        }
    }

    pub(super) fn insert(
        &mut self,
        index: u32,
        entry: Box<Entry>,
        used: Millis,
        dependency_set: u32,
        address_match: AddressMatch,
    ) {
        while self.end() <= index {
            self.chunks.push(Chunk::new());
        }
        if let Some((chunk, at)) = self.at_mut(index) {
            (chunk.used[at], chunk.dependency_sets[at], chunk.address_matches[at]) =
                (used, dependency_set, address_match);
            let old = chunk.entries[at].replace(entry);
            self.len += usize::from(old.is_none());
        }
    }

    pub(super) fn remove(&mut self, index: u32) -> Option<Box<Entry>> {
        let (chunk, at) = self.at_mut(index)?;
        let entry = chunk.entries[at].take()?;
        chunk.used[at] = Millis::NEVER;
        self.len -= 1;
        Some(entry)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Entry)> {
        let all = self.chunks.iter().flat_map(|c| c.entries.iter());
        all.enumerate().filter_map(|(i, e)| Some((i as u32, e.as_deref()?)))
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Entry> {
        self.chunks.iter_mut().flat_map(|c| c.entries.iter_mut()).filter_map(|e| e.as_deref_mut())
    }

    /// Returns the indices in the range that have entries.
    pub(super) fn existing(&self, range: Range<u32>) -> impl Iterator<Item = u32> {
        range.filter(|i| self.get(*i).is_some())
    }

    /// Returns index, dependency set and addresses of the entries in the range.
    pub(super) fn address_matches(
        &self,
        range: Range<u32>,
    ) -> impl Iterator<Item = (u32, u32, AddressMatch)> {
        let first = range.start as usize / CHUNK;
        let chunks = self.chunks.iter().enumerate().skip(first);
        let wanted = chunks.take_while(move |(n, _)| n * CHUNK < range.end as usize);
        let all = wanted.flat_map(|(n, chunk)| {
            let beside =
                chunk.dependency_sets.iter().zip(&chunk.address_matches).zip(&chunk.entries).enumerate();
            beside.filter_map(move |(at, ((dependency_set, address_match), entry))| {
                entry.as_ref().map(|_| ((n * CHUNK + at) as u32, *dependency_set, *address_match))
            })
        });
        all.filter(move |(index, ..)| (range.start..range.end).contains(index))
    }

    /// Returns the indices in the range whose entry was last used before that time.
    pub(super) fn unused_since(&self, range: Range<u32>, then: Millis) -> impl Iterator<Item = u32> {
        range.filter(move |i| self.used(*i) < then)
    }
}
