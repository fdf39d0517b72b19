//! DFC as proposed in 2018: a million pointers to megaflows, one for each hash value and without a signature. So each
//! look-up that finds an entry has to read the megaflow to verify it.

use crate::{Entry, FlowCache, Learned};
use cpu::{Advise, Table, prefetch_read};

/// Number of entries in the proposal: 8 MB.
pub const ENTRIES: usize = 1 << 20;

/// Marks an empty entry. Entries are as wide as the pointers of the proposal.
const NONE: u64 = u64::MAX;

/// A DFC cache; see the module documentation.
pub struct Dfc {
    places: Table<u64>,
}

impl Dfc {
    /// Creates a cache with this many entries, rounded up to a power of two.
    pub fn new(entries: usize, advise: Option<Advise>) -> Dfc {
        Dfc { places: Table::new(entries.clamp(1, ENTRIES).next_power_of_two(), NONE, advise) }
    }

    #[inline(always)]
    fn at(&self, hash: u32) -> usize {
        hash as usize & (self.places.len() - 1)
    }
}

impl FlowCache for Dfc {
    #[inline(always)]
    fn prefetch(&self, hash: u32) {
        prefetch_read(&self.places[self.at(hash)]);
    }

    #[inline(always)]
    fn candidate(&mut self, hash: u32) -> Option<u32> {
        let place = self.places[self.at(hash)];
        (place != NONE).then_some(place as u32)
    }

    #[inline(always)]
    fn lookup(&mut self, hash: u32, mut resolve: impl FnMut(Entry) -> Option<u32>) -> Option<u32> {
        resolve(Entry::Megaflow(self.candidate(hash)?))
    }

    fn insert(&mut self, learned: Learned) {
        let at = self.at(learned.hash);
        self.places[at] = u64::from(learned.megaflow);
    }

    fn clear(&mut self) {
        self.places.fill(NONE);
    }

    fn capacity(&self) -> usize {
        self.places.len()
    }

    fn place(&self) -> (usize, usize) {
        self.places.place()
    }
}
