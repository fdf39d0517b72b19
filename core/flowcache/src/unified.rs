//! The default cache: 16-bit signatures and 16-bit megaflow indices, sixteen of each in a cache line, two candidate
//! buckets for a hash.
//!
//! * Bucket from the low bits of the hash, signature from its high 15 bits; the other bucket is found by xor with a
//!   multiple of the signature, so that either bucket leads to the other (partial-key cuckoo hashing, Fan et al. 2014;
//!   nothing is ever moved, though: with sixteen ways that gains nothing).
//! * Replacement by clock. The reference bit is the top bit of the signature, written only when it is clear, so that
//!   the line of a busy bucket is not dirtied by hits.
//! * The size follows the traffic: the cache starts small, to leave the processor's cache to others, and grows
//!   fourfold when evictions outweigh a share of the look-ups.

use crate::FlowCache;
use cpu::{match_any, prefetch_read};

const WAYS: usize = 16;
const REFERENCED: u16 = 0x8000;
const SIGNATURE: u16 = 0x7fff;
/// A signature no hash has: the way is empty.
const EMPTY: u16 = 0;

/// Smallest number of buckets: 64 Ki entries, 256 KiB.
pub const MIN_BUCKETS: usize = 1 << 12;
/// Largest number of buckets: 1 Mi entries, 4 MiB.
pub const MAX_BUCKETS: usize = 1 << 16;

#[derive(Clone)]
#[repr(C, align(64))]
struct Bucket {
    signature: [u16; WAYS],
    index: [u16; WAYS],
}

const EMPTY_BUCKET: Bucket = Bucket { signature: [EMPTY; WAYS], index: [0; WAYS] };

/// See the module.
pub struct Unified {
    buckets: Vec<Bucket>,
    hand: u8,
    lookups: u64,
    evictions: u64,
    max_buckets: usize,
}

impl Default for Unified {
    fn default() -> Unified {
        Unified::new(MIN_BUCKETS, MAX_BUCKETS)
    }
}

impl Unified {
    /// A cache of `buckets` buckets that may grow to `max_buckets`; both are rounded up to powers of two.
    pub fn new(buckets: usize, max_buckets: usize) -> Unified {
        let n = buckets.clamp(1, MAX_BUCKETS).next_power_of_two();
        let max_buckets = max_buckets.clamp(n, MAX_BUCKETS).next_power_of_two();
        Unified { buckets: vec![EMPTY_BUCKET; n], hand: 0, lookups: 0, evictions: 0, max_buckets }
    }

    #[inline(always)]
    fn signature(hash: u32) -> u16 {
        ((hash >> 17) as u16).max(1)
    }

    #[inline(always)]
    fn primary(&self, hash: u32) -> usize {
        hash as usize & (self.buckets.len() - 1)
    }

    #[inline(always)]
    fn other(&self, bucket: usize, signature: u16) -> usize {
        (bucket ^ (usize::from(signature).wrapping_mul(0x5bd1_e995) >> 7)) & (self.buckets.len() - 1)
    }

    #[inline(always)]
    fn search(bucket: &mut Bucket, signature: u16, verify: &mut impl FnMut(u32) -> bool) -> Option<u32> {
        let mut ways = match_any(&bucket.signature, SIGNATURE, signature);
        while ways != 0 {
            let way = ways.trailing_zeros() as usize;
            ways &= ways - 1;
            let index = u32::from(bucket.index[way]);
            if verify(index) {
                if bucket.signature[way] & REFERENCED == 0 {
                    bucket.signature[way] |= REFERENCED;
                }
                return Some(index);
            }
        }
        None
    }

    /// The way to overwrite in a full bucket: the first one from the hand that was not used since the hand passed.
    fn victim(&mut self, bucket: usize) -> usize {
        let b = &mut self.buckets[bucket];
        for step in 0..WAYS {
            let way = (usize::from(self.hand) + step) % WAYS;
            if b.signature[way] & REFERENCED == 0 {
                self.hand = (way as u8 + 1) % WAYS as u8;
                return way;
            }
            b.signature[way] &= SIGNATURE;
        }
        let way = usize::from(self.hand);
        self.hand = (self.hand + 1) % WAYS as u8;
        way
    }

    fn empty_way(bucket: &Bucket) -> Option<usize> {
        let ways = match_any(&bucket.signature, u16::MAX, EMPTY);
        (ways != 0).then(|| ways.trailing_zeros() as usize)
    }
}

impl FlowCache for Unified {
    #[inline(always)]
    fn prefetch(&self, hash: u32) {
        prefetch_read(&self.buckets[self.primary(hash)]);
    }

    #[inline]
    fn candidate(&self, hash: u32) -> Option<u32> {
        let bucket = &self.buckets[self.primary(hash)];
        let ways = match_any(&bucket.signature, SIGNATURE, Self::signature(hash));
        bucket.index.get(ways.trailing_zeros() as usize).map(|&index| u32::from(index))
    }

    #[inline]
    fn lookup(&mut self, hash: u32, mut verify: impl FnMut(u32) -> bool) -> Option<u32> {
        self.lookups += 1;
        let signature = Self::signature(hash);
        let first = self.primary(hash);
        if let Some(index) = Self::search(&mut self.buckets[first], signature, &mut verify) {
            return Some(index);
        }
        let second = self.other(first, signature);
        Self::search(&mut self.buckets[second], signature, &mut verify)
    }

    fn insert(&mut self, hash: u32, index: u32) {
        let Ok(index) = u16::try_from(index) else { return };
        let signature = Self::signature(hash);
        let first = self.primary(hash);
        let second = self.other(first, signature);
        for bucket in [first, second] {
            let b = &self.buckets[bucket];
            let mut same = match_any(&b.signature, SIGNATURE, signature);
            while same != 0 {
                if b.index[same.trailing_zeros() as usize] == index {
                    return;
                }
                same &= same - 1;
            }
        }
        let place = [first, second].into_iter().find_map(|b| Some((b, Self::empty_way(&self.buckets[b])?)));
        let (bucket, way) = place.unwrap_or_else(|| {
            self.evictions += 1;
            (first, self.victim(first))
        });
        self.buckets[bucket].signature[way] = signature;
        self.buckets[bucket].index[way] = index;
    }

    fn maintain(&mut self) {
        let crowded = self.evictions > self.lookups / 128 && self.evictions > self.buckets.len() as u64;
        if crowded && self.buckets.len() < self.max_buckets {
            let n = (self.buckets.len() * 4).min(self.max_buckets);
            self.buckets = vec![EMPTY_BUCKET; n];
        }
        if crowded || self.lookups > 1 << 22 {
            (self.lookups, self.evictions) = (0, 0);
        }
    }

    fn clear(&mut self) {
        self.buckets.fill(EMPTY_BUCKET);
        (self.lookups, self.evictions) = (0, 0);
    }

    fn capacity(&self) -> usize {
        self.buckets.len() * WAYS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(i: u32) -> u32 {
        let x = u64::from(i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (x ^ x >> 29) as u32
    }

    #[test]
    fn a_bucket_is_one_line() {
        assert_eq!(size_of::<Bucket>(), 64);
    }

    #[test]
    fn finds_what_was_inserted_and_only_if_verified() {
        let mut cache = Unified::default();
        cache.insert(hash(1), 7);
        assert_eq!((cache.candidate(hash(1)), cache.candidate(hash(2))), (Some(7), None));
        assert_eq!(cache.lookup(hash(1), |_| true), Some(7));
        assert_eq!(cache.lookup(hash(1), |_| false), None);
        assert_eq!(cache.lookup(hash(2), |_| true), None);
        cache.insert(hash(3), 70_000);
        assert_eq!(cache.lookup(hash(3), |_| true), None);
    }

    #[test]
    fn one_hash_may_lead_to_several_megaflows() {
        let mut cache = Unified::default();
        cache.insert(hash(1), 7);
        cache.insert(hash(1), 8);
        cache.insert(hash(1), 8);
        let mut seen = Vec::new();
        cache.lookup(hash(1), |i| {
            seen.push(i);
            false
        });
        assert_eq!(seen, [7, 8]);
    }

    #[test]
    fn a_working_set_of_its_size_mostly_stays() {
        let mut cache = Unified::new(256, 256);
        let n = cache.capacity() as u32 * 9 / 10;
        for i in 0..n {
            cache.insert(hash(i), i);
        }
        let hits = (0..n).filter(|&i| cache.lookup(hash(i), |x| x == i).is_some()).count();
        assert!(hits as u32 > n * 98 / 100, "{hits} of {n}");
    }

    #[test]
    fn grows_when_crowded() {
        let mut cache = Unified::new(16, 64);
        for i in 0..5000 {
            if cache.lookup(hash(i), |x| x == i).is_none() {
                cache.insert(hash(i), i);
            }
        }
        let before = cache.capacity();
        cache.maintain();
        assert_eq!(cache.capacity(), before * 4);
    }
}
