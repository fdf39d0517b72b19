//! CD as proposed in 2018: a million entries of four bytes in buckets of sixteen, with two candidate buckets for each
//! hash. An entry holds a signature and the number of the **subtable** in which the packet must be looked up. So
//! 16-bit values suffice for any number of megaflows, but each hit costs a look-up in that subtable.

use crate::bucket::{Bucket, Narrow, other_bucket, signature};
use crate::{Entry, FlowCache, NewEntry};
use cpu::{Advise, Table, prefetch_read};

/// Number of buckets in the proposal: 4 MB in total.
pub const BUCKETS: usize = 1 << 16;

/// A CD cache; see the module documentation.
pub struct Cd {
    buckets: Table<Narrow>,
    random: fastrand::Rng,
}

impl Cd {
    /// Creates a cache with this many buckets, rounded up to a power of two.
    pub fn new(buckets: usize, advise: Option<Advise>) -> Cd {
        let n = buckets.clamp(1, BUCKETS).next_power_of_two();
        Cd { buckets: Table::new(n, Narrow::NEW, advise), random: fastrand::Rng::with_seed(0x5eed) }
    }

    #[inline(always)]
    fn candidates(&self, hash: u32) -> [usize; 2] {
        let mask = self.buckets.len() - 1;
        let first = hash as usize & mask;
        [first, other_bucket(first, signature(hash), mask)]
    }
}

impl FlowCache for Cd {
    #[inline(always)]
    fn prefetch(&self, hash: u32) {
        prefetch_read(&self.buckets[self.candidates(hash)[0]]);
    }

    #[inline(always)]
    fn candidate(&mut self, _: u32) -> Option<u32> {
        None
    }

    #[inline(always)]
    fn lookup(&mut self, hash: u32, mut resolve: impl FnMut(Entry) -> Option<u32>) -> Option<u32> {
        for at in self.candidates(hash) {
            let mut ways = self.buckets[at].ways(signature(hash));
            while ways != 0 {
                let way = ways.trailing_zeros() as usize;
                ways &= ways - 1;
                if let Some(index) = resolve(Entry::Subtable(self.buckets[at].value(way) as u16)) {
                    return Some(index);
                }
            }
        }
        None
    }

    fn insert(&mut self, new_entry: NewEntry) {
        let (signature, value) = (signature(new_entry.hash), u32::from(new_entry.subtable));
        let candidates = self.candidates(new_entry.hash);
        for at in candidates {
            let b = &self.buckets[at];
            let ways = b.ways(signature);
            if (0..Narrow::WAYS).any(|w| ways >> w & 1 == 1 && b.value(w) == value) {
                return;
            }
        }
        let free = candidates.into_iter().find_map(|b| Some((b, self.buckets[b].empty_way()?)));
        let (at, way) = free.unwrap_or_else(|| {
            let r = self.random.u32(..) as usize;
            (candidates[r >> 4 & 1], r % Narrow::WAYS)
        });
        self.buckets[at].set_entry(way, signature, value);
    }

    fn clear(&mut self) {
        self.buckets.fill(Narrow::NEW);
    }

    fn capacity(&self) -> usize {
        self.buckets.len() * Narrow::WAYS
    }

    fn largest_table(&self) -> (usize, usize) {
        self.buckets.location()
    }
}
