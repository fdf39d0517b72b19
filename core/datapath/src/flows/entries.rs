//! Entries of the publisher, indexed by megaflow.
//!
//! They are stored in chunks, so that no entry is moved under the lock when the table grows. Columns that are
//! scanned over all entries (last use, dependencies, matched addresses) are separate arrays.

use super::entry::Entry;
use classifier::megaflow::Brief;
use std::ops::Range;
use units::Millis;

pub(super) const CHUNK: usize = 1024;

struct Chunk {
    /// Last use, or creation; `NEVER` for a megaflow of a command that no packet has used.
    used: Box<[Millis]>,
    dependency_sets: Box<[u32]>,
    briefs: Box<[Brief]>,
    entries: Box<[Option<Box<Entry>>]>,
}

impl Chunk {
    fn new() -> Chunk {
        Chunk {
            used: vec![Millis::NEVER; CHUNK].into(),
            dependency_sets: vec![0; CHUNK].into(),
            briefs: vec![Brief::default(); CHUNK].into(),
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

    /// The end of the range of indices.
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

    /// The last use that has been folded.
    pub(super) fn used(&self, index: u32) -> Millis {
        self.at(index).map_or(Millis::NEVER, |(chunk, at)| chunk.used[at])
    }

    pub(super) fn set_used(&mut self, index: u32, used: Millis) {
        if let Some((chunk, at)) = self.at_mut(index) {
            chunk.used[at] = used;
        }
    }

    /// The number of its dependencies.
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
        brief: Brief,
    ) {
        while self.end() <= index {
            self.chunks.push(Chunk::new());
        }
        if let Some((chunk, at)) = self.at_mut(index) {
            (chunk.used[at], chunk.dependency_sets[at], chunk.briefs[at]) = (used, dependency_set, brief);
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

    /// The indices in the range that have entries.
    pub(super) fn there(&self, range: Range<u32>) -> impl Iterator<Item = u32> {
        range.filter(|i| self.get(*i).is_some())
    }

    /// Index, dependencies and addresses of the entries at these indices.
    pub(super) fn briefs(&self, range: Range<u32>) -> impl Iterator<Item = (u32, u32, Brief)> {
        let first = range.start as usize / CHUNK;
        let chunks = self.chunks.iter().enumerate().skip(first);
        let wanted = chunks.take_while(move |(n, _)| n * CHUNK < range.end as usize);
        let all = wanted.flat_map(|(n, chunk)| {
            let beside = chunk.dependency_sets.iter().zip(&chunk.briefs).zip(&chunk.entries).enumerate();
            beside.filter_map(move |(at, ((dependency_set, brief), entry))| {
                entry.as_ref().map(|_| ((n * CHUNK + at) as u32, *dependency_set, *brief))
            })
        });
        all.filter(move |(index, ..)| (range.start..range.end).contains(index))
    }

    /// The indices in the range whose entry was last used before that time.
    pub(super) fn unused_since(&self, range: Range<u32>, then: Millis) -> impl Iterator<Item = u32> {
        range.filter(move |i| self.used(*i) < then)
    }
}
