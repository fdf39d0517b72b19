//! EMC: the exact match cache of Open vSwitch, in two sizes and with one or two candidate entries for each flow.
//!
//! An entry of Open vSwitch holds a packet's complete key (600 bytes), which is compared. Here an entry holds the
//! 32-bit hash and the index of the megaflow, and the megaflow is compared. The rules are the same: 8,192 entries;
//! two candidates from two slices of the hash; one in `inv_prob` new flows is inserted; and if both candidates are in
//! use, the entry with the lower hash is replaced. So the miss ratios are those of Open vSwitch, and the cost of a
//! hit is lower.

use crate::{Entry, FlowCache, NewEntry};
use cpu::{Advise, Table, prefetch_read};

/// An entry. `index` is the megaflow index plus one, so that zero means empty.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct EmcEntry {
    hash: u32,
    index: u32,
}

/// An EMC; see the module documentation.
pub struct Emc {
    entries: Table<EmcEntry>,
    bits: u32,
    ways: usize,
    /// A flow is inserted if a random number is at most this.
    threshold: u32,
    random: fastrand::Rng,
}

impl Emc {
    /// Creates a cache with `1 << bits` entries and `ways` (1 or 2) candidate entries for each flow. One in
    /// `inv_prob` new flows is inserted; none if `inv_prob` is zero.
    pub fn new(bits: u32, ways: usize, inv_prob: u32, advise: Option<Advise>) -> Emc {
        let bits = bits.clamp(1, 16);
        let threshold = u32::MAX.checked_div(inv_prob).unwrap_or(0);
        let entries = Table::new(1 << bits, EmcEntry::default(), advise);
        Emc { entries, bits, ways: ways.clamp(1, 2), threshold, random: fastrand::Rng::with_seed(0x5eed) }
    }

    #[inline(always)]
    fn at(&self, hash: u32, way: usize) -> usize {
        (hash >> (self.bits * way as u32)) as usize & (self.entries.len() - 1)
    }

    /// Inserts the flow with the configured probability.
    #[inline]
    pub fn insert_by_chance(&mut self, new_entry: NewEntry) {
        if self.threshold != 0 && self.random.u32(..) <= self.threshold {
            self.insert(new_entry);
        }
    }
}

impl FlowCache for Emc {
    #[inline(always)]
    fn prefetch(&self, hash: u32) {
        for way in 0..self.ways {
            prefetch_read(&self.entries[self.at(hash, way)]);
        }
    }

    #[inline(always)]
    fn candidate(&mut self, hash: u32) -> Option<u32> {
        let mut candidates = (0..self.ways).map(|way| self.entries[self.at(hash, way)]);
        Some(candidates.find(|p| p.hash == hash && p.index != 0)?.index - 1)
    }

    #[inline(always)]
    fn lookup(&mut self, hash: u32, mut resolve: impl FnMut(Entry) -> Option<u32>) -> Option<u32> {
        (0..self.ways).find_map(|way| {
            let entry = self.entries[self.at(hash, way)];
            let known = entry.hash == hash && entry.index != 0;
            if known { resolve(Entry::Megaflow(entry.index - 1)) } else { None }
        })
    }

    fn insert(&mut self, new_entry: NewEntry) {
        let Some(index) = new_entry.megaflow.checked_add(1) else { return };
        let candidates = [self.at(new_entry.hash, 0), self.at(new_entry.hash, self.ways - 1)];
        let same = |&at: &usize| self.entries[at].index != 0 && self.entries[at].hash == new_entry.hash;
        let free = |&at: &usize| self.entries[at].index == 0;
        let at = candidates.iter().copied().find(same).or_else(|| candidates.iter().copied().find(free));
        let lower = if self.entries[candidates[1]].hash < self.entries[candidates[0]].hash { 1 } else { 0 };
        self.entries[at.unwrap_or(candidates[lower])] = EmcEntry { hash: new_entry.hash, index };
    }

    fn clear(&mut self) {
        self.entries.fill(EmcEntry::default());
    }

    fn capacity(&self) -> usize {
        self.entries.len()
    }

    fn largest_table(&self) -> (usize, usize) {
        self.entries.location()
    }
}
