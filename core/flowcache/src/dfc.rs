//! DFC as proposed in 2018: a million pointers to megaflows, one for each hash value, without a signature. So each
//! look-up that finds an entry must read the megaflow to verify the entry.

use crate::{Entry, FlowCache, NewEntry};
use cpu::{Advise, Table, prefetch_read};

/// Number of entries in the proposal: 1 Mi entries of 8 bytes are 8 MB.
pub const ENTRIES: usize = 1 << 20;

/// The value of an empty entry. Entries have the width of the proposal's pointers.
const NONE: u64 = u64::MAX;

/// A DFC cache; see the module documentation.
pub struct Dfc {
    entries: Table<u64>,
}

impl Dfc {
    /// Creates a cache with this many entries, rounded up to a power of two.
    pub fn new(entries: usize, advise: Option<Advise>) -> Dfc {
        Dfc { entries: Table::new(entries.clamp(1, ENTRIES).next_power_of_two(), NONE, advise) }
    }

    #[inline(always)]
    fn at(&self, hash: u32) -> usize {
        hash as usize & (self.entries.len() - 1)
    }
}

impl FlowCache for Dfc {
    #[inline(always)]
    fn prefetch(&self, hash: u32) {
        prefetch_read(&self.entries[self.at(hash)]);
    }

    #[inline(always)]
    fn candidate(&mut self, hash: u32) -> Option<u32> {
        let entry = self.entries[self.at(hash)];
        (entry != NONE).then_some(entry as u32)
    }

    #[inline(always)]
    fn lookup(&mut self, hash: u32, mut resolve: impl FnMut(Entry) -> Option<u32>) -> Option<u32> {
        resolve(Entry::Megaflow(self.candidate(hash)?))
    }

    fn insert(&mut self, new_entry: NewEntry) {
        let at = self.at(new_entry.hash);
        self.entries[at] = u64::from(new_entry.megaflow);
    }

    fn clear(&mut self) {
        self.entries.fill(NONE);
    }

    fn capacity(&self) -> usize {
        self.entries.len()
    }

    fn largest_table(&self) -> (usize, usize) {
        self.entries.location()
    }
}
