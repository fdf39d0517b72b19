//! SMC: the signature match cache of Open vSwitch. It has a million entries in buckets of four, one candidate bucket
//! for each hash, signatures of 16 bits, and indices below 65,535. Only the first entry with the signature is
//! verified, and in a full bucket a random entry is evicted. Bits 0 to 17 of the hash select the bucket and bits 16
//! to 31 are the signature: two bits are used for both.

use crate::{Entry, FlowCache, NewEntry};
use cpu::{Advise, Table, prefetch_read};

const WAYS: usize = 4;
/// The index of an empty way: no megaflow has this index.
const NONE: u16 = u16::MAX;

/// Number of buckets in Open vSwitch.
pub const BUCKETS: usize = 1 << 18;

#[derive(Clone, Copy, Debug)]
#[repr(C, align(16))]
struct Bucket {
    signature: [u16; WAYS],
    index: [u16; WAYS],
}

const NEW: Bucket = Bucket { signature: [0; WAYS], index: [NONE; WAYS] };

/// An SMC; see the module documentation.
pub struct Smc {
    buckets: Table<Bucket>,
    random: fastrand::Rng,
}

impl Smc {
    /// Creates a cache with this many buckets, rounded up to a power of two.
    pub fn new(buckets: usize, advise: Option<Advise>) -> Smc {
        let n = buckets.clamp(1, BUCKETS).next_power_of_two();
        Smc { buckets: Table::new(n, NEW, advise), random: fastrand::Rng::with_seed(0x5eed) }
    }

    #[inline(always)]
    fn bucket(&self, hash: u32) -> usize {
        hash as usize & (self.buckets.len() - 1)
    }

    #[inline(always)]
    fn find(&self, hash: u32) -> Option<u32> {
        let bucket = &self.buckets[self.bucket(hash)];
        let signature = (hash >> 16) as u16;
        let way = (0..WAYS).find(|&w| bucket.signature[w] == signature && bucket.index[w] != NONE)?;
        Some(u32::from(bucket.index[way]))
    }
}

impl FlowCache for Smc {
    #[inline(always)]
    fn prefetch(&self, hash: u32) {
        prefetch_read(&self.buckets[self.bucket(hash)]);
    }

    #[inline(always)]
    fn candidate(&mut self, hash: u32) -> Option<u32> {
        self.find(hash)
    }

    #[inline(always)]
    fn lookup(&mut self, hash: u32, mut resolve: impl FnMut(Entry) -> Option<u32>) -> Option<u32> {
        resolve(Entry::Megaflow(self.find(hash)?))
    }

    fn insert(&mut self, new_entry: NewEntry) {
        let Ok(index) = u16::try_from(new_entry.megaflow) else { return };
        if index == NONE {
            return;
        }
        let signature = (new_entry.hash >> 16) as u16;
        let at = self.bucket(new_entry.hash);
        let bucket = &mut self.buckets[at];
        let same = (0..WAYS).find(|&w| bucket.signature[w] == signature);
        let free = || bucket.index.iter().position(|&i| i == NONE);
        let way = same.or_else(free).unwrap_or_else(|| self.random.usize(..WAYS));
        (bucket.signature[way], bucket.index[way]) = (signature, index);
    }

    fn clear(&mut self) {
        self.buckets.fill(NEW);
    }

    fn capacity(&self) -> usize {
        self.buckets.len() * WAYS
    }

    fn largest_table(&self) -> (usize, usize) {
        self.buckets.location()
    }
}
