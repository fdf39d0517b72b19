//! Index of connections by the hashes of their keys: a hash table that is read without a lock and grows one
//! bucket at a time.
//!
//! A bucket is a cache line: seven entries and the number of an overflow bucket. An entry is 36 bits of the
//! hash and the number of a record, whose key tells whether it is the right one. The highest ten bits of a
//! hash select the *shard*, whose lock a writer holds. Each shard grows by linear hashing (W. Litwin, 1980):
//! after every four inserted entries one of its buckets is split, so no insertion costs more than that.
//!
//! **Readers** take no lock. A split copies entries to the new bucket, then publishes the size, then clears
//! the old entries. So a reader that found nothing and sees an unchanged size has not missed an entry that
//! existed during the whole look-up.

use crate::slab::Slab;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Number of shards: large enough that 16 workers that all begin connections rarely need the same lock.
pub const SHARDS: usize = 1 << SHARD_BITS;
const SHARD_BITS: u32 = 10;
/// Bits of an entry that contain the number of a record, plus one.
const RECORD_BITS: u32 = 28;
/// Maximum number of records.
pub(crate) const RECORDS_MAX: u32 = (1 << RECORD_BITS) - 2;
/// Bits of a hash that select the bucket in its shard; this limits the growth of a shard.
const BUCKET_BITS: u32 = 18;
const ENTRIES: usize = 7;
/// Average number of entries per bucket above which a bucket is added.
const LOAD: u32 = 4;
/// Number of overflow buckets that a shard reserves at once.
const OVERFLOW_BATCH: u32 = 4;

#[repr(C, align(64))]
#[derive(Debug)]
#[cfg_attr(not(loom), derive(zerocopy::FromZeros))]
#[cfg_attr(loom, derive(Default))]
pub(crate) struct Bucket {
    entries: [AtomicU64; ENTRIES],
    /// Number of the next bucket of the chain, plus one; 0: none. It is set at most once.
    next: AtomicU64,
}

/// Finds records by the hashes of their keys.
#[derive(Debug)]
pub(crate) struct Index {
    /// Bucket `i` of shard `s` has number `i * SHARDS + s`.
    buckets: Slab<Bucket>,
    overflow: Slab<Bucket>,
    /// Number of overflow buckets that shards have reserved.
    overflow_used: AtomicU32,
    /// Number of buckets of each shard.
    sizes: Box<[AtomicU32]>,
}

/// Where an entry may be added.
#[derive(Debug)]
pub(crate) enum Vacancy<'a> {
    At(&'a AtomicU64),
    /// Nowhere: another record has the key.
    Taken,
    /// Nowhere: out of memory.
    Full,
}

/// The part of the index that the lock of a shard protects.
#[derive(Debug, Default)]
pub(crate) struct ShardIndex {
    entries: u32,
    /// Reserved overflow buckets that are in no chain.
    spare: Vec<u32>,
}

/// The shard of a hash.
#[inline(always)]
pub(crate) fn shard_of(hash: u64) -> usize {
    (hash >> (64 - SHARD_BITS)) as usize
}

fn entry_of(hash: u64, record: u32) -> u64 {
    hash >> RECORD_BITS << RECORD_BITS | u64::from(record + 1)
}

/// The bucket of a hash in its shard, which has `size` buckets.
#[inline(always)]
fn bucket_of(hash: u64, size: u32) -> u32 {
    let bits = (hash >> RECORD_BITS) as u32 & ((1 << BUCKET_BITS) - 1);
    let level = size.ilog2();
    let wide = bits & ((2 << level) - 1);
    if wide < size { wide } else { bits & ((1 << level) - 1) }
}

impl Bucket {
    /// The record number in the first entry with this hash. Its key is not compared.
    #[inline(always)]
    pub(crate) fn guess(&self, hash: u64) -> Option<u32> {
        for entry in &self.entries {
            let entry = entry.load(Ordering::Relaxed);
            if entry ^ hash < 1 << RECORD_BITS {
                return record_of(entry);
            }
        }
        None
    }
}

impl Default for Index {
    fn default() -> Index {
        let index = Index {
            buckets: Slab::default(),
            overflow: Slab::default(),
            overflow_used: AtomicU32::new(0),
            sizes: (0..SHARDS).map(|_| AtomicU32::new(1)).collect(),
        };
        index.buckets.make(0);
        index
    }
}

impl Index {
    #[inline(always)]
    fn bucket(&self, shard: usize, at: u32) -> Option<&Bucket> {
        self.buckets.get(at << SHARD_BITS | shard as u32)
    }

    /// The buckets of a chain.
    #[inline(always)]
    fn chain<'a>(&'a self, first: Option<&'a Bucket>) -> impl Iterator<Item = &'a Bucket> {
        std::iter::successors(first, |bucket| match bucket.next.load(Ordering::Acquire) {
            0 => None,
            next => self.overflow.get(next as u32 - 1),
        })
    }

    /// Prefetches the bucket of a hash.
    #[inline(always)]
    pub(crate) fn prefetch(&self, hash: u64) -> Option<&Bucket> {
        let shard = shard_of(hash);
        let size = self.sizes[shard].load(Ordering::Relaxed);
        let bucket = self.bucket(shard, bucket_of(hash, size))?;
        cpu::prefetch_read(bucket);
        Some(bucket)
    }

    /// Searches the records of a hash with `is` and returns its first result. Reads without a lock.
    #[inline(always)]
    pub(crate) fn find<T>(&self, hash: u64, mut is: impl FnMut(u32) -> Option<T>) -> Option<T> {
        let shard = shard_of(hash);
        let mut size = self.sizes[shard].load(Ordering::Acquire);
        loop {
            for bucket in self.chain(self.bucket(shard, bucket_of(hash, size))) {
                for entry in &bucket.entries {
                    let entry = entry.load(Ordering::Acquire);
                    if (entry ^ hash) >> RECORD_BITS == 0
                        && let Some(found) = record_of(entry).and_then(&mut is)
                    {
                        return Some(found);
                    }
                }
            }
            let now = self.sizes[shard].load(Ordering::Acquire);
            if now == size {
                return None;
            }
            size = now;
        }
    }

    /// Returns whether there is no entry of a hash, whose bucket was [prefetched](Self::prefetch). `false`: there may be one.
    #[inline(always)]
    pub(crate) fn is_absent(&self, hash: u64, bucket: &Bucket) -> bool {
        let absent = bucket.entries.iter().all(|e| (e.load(Ordering::Acquire) ^ hash) >> RECORD_BITS != 0);
        // As in `find`: a bucket that was split meanwhile has lost entries.
        let shard = shard_of(hash);
        let size = self.sizes[shard].load(Ordering::Acquire);
        let same = self.bucket(shard, bucket_of(hash, size)).is_some_and(|now| std::ptr::eq(now, bucket));
        absent && same && bucket.next.load(Ordering::Relaxed) == 0
    }

    /// A free place for an entry of a hash, unless `is_taken` is true for a record that has such an entry. Here and in the functions
    /// below, the caller holds the lock of the hash's shard.
    pub(crate) fn vacancy(
        &self,
        state: &mut ShardIndex,
        hash: u64,
        is_taken: impl FnMut(u32) -> bool,
    ) -> Vacancy<'_> {
        let shard = shard_of(hash);
        let size = self.sizes[shard].load(Ordering::Relaxed);
        self.vacancy_in(state, self.bucket(shard, bucket_of(hash, size)), hash, is_taken)
    }

    /// The same in a chain of buckets.
    #[inline(always)]
    fn vacancy_in<'a>(
        &'a self,
        state: &mut ShardIndex,
        first: Option<&'a Bucket>,
        hash: u64,
        mut is_taken: impl FnMut(u32) -> bool,
    ) -> Vacancy<'a> {
        let (mut free, mut last) = (None, None);
        for bucket in self.chain(first) {
            for place in &bucket.entries {
                let entry = place.load(Ordering::Relaxed);
                if entry == 0 {
                    free = Some(place);
                } else if (entry ^ hash) >> RECORD_BITS == 0 && record_of(entry).is_some_and(&mut is_taken) {
                    return Vacancy::Taken;
                }
            }
            last = Some(bucket);
        }
        if let Some(free) = free {
            return Vacancy::At(free);
        }
        let (Some(last), Some((number, more))) = (last, self.overflow_bucket(state)) else {
            return Vacancy::Full;
        };
        last.next.store(u64::from(number) + 1, Ordering::Release);
        Vacancy::At(&more.entries[0])
    }

    /// Adds an entry in a place that was found free under the same lock.
    pub(crate) fn fill(&self, state: &mut ShardIndex, place: &AtomicU64, hash: u64, record: u32) {
        place.store(entry_of(hash, record), Ordering::Release);
        state.entries += 1;
        let shard = shard_of(hash);
        let size = self.sizes[shard].load(Ordering::Relaxed);
        if state.entries > size * LOAD {
            self.split(state, shard, size);
        }
    }

    fn overflow_bucket(&self, state: &mut ShardIndex) -> Option<(u32, &Bucket)> {
        if state.spare.is_empty() {
            let first = self.overflow_used.fetch_add(OVERFLOW_BATCH, Ordering::Relaxed);
            state.spare.extend((first..first + OVERFLOW_BATCH).rev());
        }
        let number = state.spare.pop()?;
        let bucket = self.overflow.make(number);
        if bucket.is_none() {
            state.spare.push(number);
        }
        bucket.map(|b| (number, b))
    }

    /// Adds a bucket and moves the entries that belong there from another one.
    fn split(&self, state: &mut ShardIndex, shard: usize, size: u32) {
        if size >= 1 << BUCKET_BITS {
            return;
        }
        let from = size - (1 << size.ilog2());
        let Some(new) = self.buckets.make(size << SHARD_BITS | shard as u32) else { return };
        // All entries of the old bucket have the same lower bits. Those that move have the next bit set, too.
        let moves = |entry: u64| entry >> (RECORD_BITS + size.ilog2()) & 1 != 0;
        let mut empty = new.entries.iter();
        for bucket in self.chain(self.bucket(shard, from)) {
            for entry in &bucket.entries {
                let entry = entry.load(Ordering::Relaxed);
                if !moves(entry) {
                    continue;
                }
                let place = match empty.next() {
                    Some(place) => Vacancy::At(place),
                    None => self.vacancy_in(state, Some(new), entry, |_| false),
                };
                let Vacancy::At(place) = place else {
                    // Out of memory: the old bucket stays as it was, and the copies in the new one are
                    // cleared.
                    return self.chain(Some(new)).for_each(|b| b.entries.iter().for_each(clear));
                };
                place.store(entry, Ordering::Relaxed);
            }
        }
        self.sizes[shard].store(size + 1, Ordering::Release);
        for bucket in self.chain(self.bucket(shard, from)) {
            bucket.entries.iter().filter(|e| moves(e.load(Ordering::Relaxed))).for_each(clear);
        }
    }

    /// Removes an entry.
    pub(crate) fn remove(&self, state: &mut ShardIndex, hash: u64, record: u32) {
        let (shard, entry) = (shard_of(hash), entry_of(hash, record));
        let size = self.sizes[shard].load(Ordering::Relaxed);
        let mut entries = self.chain(self.bucket(shard, bucket_of(hash, size))).flat_map(|b| &b.entries);
        if let Some(found) = entries.find(|e| e.load(Ordering::Relaxed) == entry) {
            clear(found);
            state.entries -= 1;
        }
    }
}

fn clear(entry: &AtomicU64) {
    entry.store(0, Ordering::Release);
}

/// The record of an entry.
#[inline(always)]
fn record_of(entry: u64) -> Option<u32> {
    (entry as u32 & ((1 << RECORD_BITS) - 1)).checked_sub(1)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Hashes for few shards, many of which have equal hash bits in their entries.
    fn hash_of(n: u64) -> u64 {
        let mixed = cpu::siphash([1, 2], &[n]);
        mixed & !(0x3fe << 54) & if n.is_multiple_of(3) { u64::MAX << 40 } else { u64::MAX }
    }

    impl Index {
        fn insert(&self, state: &mut ShardIndex, hash: u64, record: u32) -> bool {
            let Vacancy::At(place) = self.vacancy(state, hash, |_| false) else { return false };
            self.fill(state, place, hash, record);
            true
        }
    }

    #[test]
    fn entries_are_found_while_the_index_grows_and_no_others() {
        let (index, mut state) = (Index::default(), [ShardIndex::default(), ShardIndex::default()]);
        let mut there = BTreeSet::new();
        for step in 0..20_000u64 {
            let n = cpu::siphash([3, 4], &[step]) % 4000;
            let hash = hash_of(n);
            let shard = &mut state[shard_of(hash)];
            if there.remove(&n) {
                index.remove(shard, hash, n as u32);
            } else {
                assert!(index.insert(shard, hash, n as u32));
                there.insert(n);
            }
            let probe = step % 4000;
            let found = index.find(hash_of(probe), |r| (r == probe as u32).then_some(()));
            assert_eq!(found.is_some(), there.contains(&probe), "{probe} after {step} steps");
            let bucket = index.prefetch(hash_of(probe)).expect("a bucket");
            assert!(!there.contains(&probe) || !index.is_absent(hash_of(probe), bucket));
        }
        assert!(there.len() > 1000 && index.sizes[0].load(Ordering::Relaxed) > 100);
        let entries = state.iter().map(|s| s.entries as usize).sum::<usize>();
        assert_eq!(entries, there.len());
    }

    #[test]
    fn a_reader_misses_nothing_while_buckets_are_split() {
        let index = Index::default();
        std::thread::scope(|scope| {
            let mut state = [ShardIndex::default(), ShardIndex::default()];
            assert!(index.insert(&mut state[shard_of(hash_of(1))], hash_of(1), 1));
            let reader = scope
                .spawn(|| (0..200_000).all(|_| index.find(hash_of(1), |r| (r == 1).then_some(())).is_some()));
            for n in 2..30_000 {
                assert!(index.insert(&mut state[shard_of(hash_of(n))], hash_of(n), n as u32));
            }
            assert!(reader.join().expect("the reader ends"));
        });
    }
}
