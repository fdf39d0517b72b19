//! A cache with an EMC in front of it. As in Open vSwitch, a hit in the second cache may be inserted into the EMC.

use crate::{Emc, Entry, FlowCache, NewEntry};

/// An empty cache, for an EMC without a second cache behind it.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoCache;

impl FlowCache for NoCache {
    #[inline(always)]
    fn prefetch(&self, _: u32) {}

    #[inline(always)]
    fn candidate(&mut self, _: u32) -> Option<u32> {
        None
    }

    #[inline(always)]
    fn lookup(&mut self, _: u32, _: impl FnMut(Entry) -> Option<u32>) -> Option<u32> {
        None
    }

    fn insert(&mut self, _: NewEntry) {}

    fn clear(&mut self) {}

    fn capacity(&self) -> usize {
        0
    }

    fn largest_table(&self) -> (usize, usize) {
        (0, 0)
    }
}

/// A cache behind an optional EMC; see the module documentation.
pub struct WithEmc<C> {
    emc: Option<Emc>,
    hits: u64,
    back: C,
}

impl<C: FlowCache> WithEmc<C> {
    /// Places `emc`, if there is one, in front of `back`.
    pub fn new(emc: Option<Emc>, back: C) -> WithEmc<C> {
        WithEmc { emc, hits: 0, back }
    }
}

impl<C: FlowCache> FlowCache for WithEmc<C> {
    #[inline(always)]
    fn prefetch(&self, hash: u32) {
        if let Some(emc) = &self.emc {
            emc.prefetch(hash);
        }
        self.back.prefetch(hash);
    }

    #[inline(always)]
    fn candidate(&mut self, hash: u32) -> Option<u32> {
        self.emc.as_mut().and_then(|emc| emc.candidate(hash)).or_else(|| self.back.candidate(hash))
    }

    #[inline(always)]
    fn lookup(&mut self, hash: u32, mut resolve: impl FnMut(Entry) -> Option<u32>) -> Option<u32> {
        let Some(emc) = &mut self.emc else { return self.back.lookup(hash, resolve) };
        if let Some(megaflow) = emc.lookup(hash, &mut resolve) {
            self.hits += 1;
            return Some(megaflow);
        }
        let megaflow = self.back.lookup(hash, resolve)?;
        // An EMC ignores the subtable and the port.
        emc.insert_by_chance(NewEntry { hash, megaflow, subtable: 0, port: 0 });
        Some(megaflow)
    }

    fn insert(&mut self, new_entry: NewEntry) {
        self.back.insert(new_entry);
        if let Some(emc) = &mut self.emc {
            emc.insert_by_chance(new_entry);
        }
    }

    fn account(&mut self, port: u32, lookups: u32, hits: u32) {
        self.back.account(port, lookups, hits);
    }

    fn front_hits(&self) -> u64 {
        self.hits
    }

    fn clear(&mut self) {
        self.back.clear();
        if let Some(emc) = &mut self.emc {
            emc.clear();
        }
    }

    fn capacity(&self) -> usize {
        self.back.capacity() + self.emc.as_ref().map_or(0, Emc::capacity)
    }

    fn bytes(&self) -> usize {
        self.back.bytes() + self.emc.as_ref().map_or(0, Emc::bytes)
    }

    fn largest_table(&self) -> (usize, usize) {
        let front = self.emc.as_ref().map_or((0, 0), Emc::largest_table);
        if front.1 > self.back.largest_table().1 { front } else { self.back.largest_table() }
    }
}
