//! Index of connections by the hashes of their keys: a hash table that is read without a lock and grows one
//! bucket at a time.
//!
//! A bucket is a cache line: seven entries and the number of an overflow bucket. An entry is 36 bits of the
//! hash and the number of a record, whose key tells whether it is the right one. The highest ten bits of a
//! hash select the *shard*, whose lock a writer holds. Each shard grows by linear hashing (W. Litwin, 1980):
//! after every four inserted entries one of its buckets is split, so no insertion costs more than that.
//!
//! **Readers** take no lock. A writer that moves an entry copies it first, then changes the *version* of the shard, then clears the old
//! entry. So a reader that found nothing and sees an unchanged version has not missed an entry that existed during the whole look-up.
//! A split is such a change of the version: it contains the number of buckets.
//!
//! **Overflow buckets** are used again. When an entry of a chain with overflow buckets is removed, an entry of the last bucket takes its
//! place, and a last bucket without entries leaves the chain. A reader may still be in it then, also when it is in another chain later: it
//! misses nothing, because there was nothing behind the bucket, and compares the key of each record that it finds.

use crate::atomic::{AtomicU64, Ordering};
use crate::numbers::Numbers;
use crate::slab::{SLOTS_MAX, Slab};

/// Number of shards: large enough that 16 workers that all begin connections rarely need the same lock.
pub const SHARDS: usize = 1 << SHARD_BITS;
const SHARD_BITS: u32 = if cfg!(loom) { 1 } else { 10 };
/// Bits of an entry that contain the number of a record, plus one.
const RECORD_BITS: u32 = 28;
/// Maximum number of records.
pub(crate) const RECORDS_MAX: u32 = (1 << RECORD_BITS) - 2;
/// Bits of a hash that select the bucket in its shard; this limits the growth of a shard.
const BUCKET_BITS: u32 = 18;
const ENTRIES: usize = if cfg!(loom) { 2 } else { 7 };
/// Average number of entries per bucket above which a bucket is added.
const LOAD: u32 = if cfg!(loom) { 8 } else { 4 };
/// The part of a shard's version that is the number of its buckets, with [`DUE`].
const SIZE_BITS: u32 = 32;
/// The bit of a version that says that the next entry makes a bucket be split. A hint for prefetches.
const DUE: u64 = 1 << 31;

#[repr(C, align(64))]
#[derive(Debug)]
#[cfg_attr(not(loom), derive(zerocopy::FromZeros))]
#[cfg_attr(loom, derive(Default))]
pub(crate) struct Bucket {
    entries: [AtomicU64; ENTRIES],
    /// Number of the next bucket of the chain, plus one; 0: none.
    next: AtomicU64,
}

/// Finds records by the hashes of their keys.
#[derive(Debug)]
pub(crate) struct Index {
    /// Bucket `i` of shard `s` has number `i * SHARDS + s`.
    buckets: Slab<Bucket>,
    overflow: Slab<Bucket>,
    overflow_numbers: Numbers,
    /// For each shard the number of its buckets, and above that how often entries of a chain were moved.
    versions: Box<[AtomicU64]>,
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
    /// Overflow buckets that are in no chain and have no entries.
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

/// The number of buckets of a shard with this version.
#[inline(always)]
fn size_of(version: u64) -> u32 {
    version as u32 & !(DUE as u32)
}

/// The bucket that is split next in a shard of `size` buckets.
#[inline(always)]
fn next_split(size: u32) -> u32 {
    size - (1 << size.ilog2())
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
    fn guess(&self, hash: u64) -> Option<u32> {
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
            overflow_numbers: Numbers::new(SLOTS_MAX),
            versions: (0..SHARDS).map(|_| AtomicU64::new(1)).collect(),
        };
        // The first bucket of each shard.
        (0..SHARDS as u32).for_each(|shard| _ = index.buckets.make(shard));
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
        std::iter::successors(first, |bucket| self.behind(bucket))
    }

    /// The next bucket of a chain.
    #[inline(always)]
    fn behind(&self, bucket: &Bucket) -> Option<&Bucket> {
        match bucket.next.load(Ordering::Acquire) {
            0 => None,
            next => self.overflow.get(next as u32 - 1),
        }
    }

    /// The record number in the first entry of a chain with this hash. Its key is not compared. Of random hashes, three in 100 are in
    /// overflow buckets; those are not prefetched.
    #[inline(always)]
    pub(crate) fn guess(&self, first: &Bucket, hash: u64) -> Option<u32> {
        match first.guess(hash) {
            None if first.next.load(Ordering::Relaxed) != 0 => self.guess_behind(first, hash),
            found => found,
        }
    }

    #[inline(never)]
    fn guess_behind(&self, first: &Bucket, hash: u64) -> Option<u32> {
        self.chain(Some(first)).skip(1).find_map(|bucket| bucket.guess(hash))
    }

    /// Number of buckets of a shard whose lock the caller holds.
    fn size(&self, shard: usize) -> u32 {
        size_of(self.versions[shard].load(Ordering::Relaxed))
    }

    /// Prefetches the bucket of a hash.
    #[inline(always)]
    pub(crate) fn prefetch(&self, hash: u64) -> Option<&Bucket> {
        let shard = shard_of(hash);
        let bucket = self.bucket(shard, bucket_of(hash, self.size(shard)))?;
        cpu::prefetch_read(bucket);
        Some(bucket)
    }

    /// Prefetches what the insertion of an entry reads and writes.
    #[inline(always)]
    pub(crate) fn prefetch_insertion(&self, hash: u64) {
        let shard = shard_of(hash);
        let version = self.versions[shard].load(Ordering::Relaxed);
        let size = size_of(version);
        let prefetch = |at: u32| self.bucket(shard, at).into_iter().for_each(cpu::prefetch_read);
        prefetch(bucket_of(hash, size));
        if version & DUE != 0 {
            prefetch(next_split(size));
            prefetch(size);
        }
    }

    /// Searches the records of a hash with `is` and returns its first result. Reads without a lock.
    #[inline(always)]
    pub(crate) fn find<T>(&self, hash: u64, mut is: impl FnMut(u32) -> Option<T>) -> Option<T> {
        let shard = shard_of(hash);
        let mut version = self.versions[shard].load(Ordering::Acquire);
        loop {
            let mut next = self.bucket(shard, bucket_of(hash, size_of(version)));
            while let Some(bucket) = next {
                for entry in &bucket.entries {
                    let entry = entry.load(Ordering::Acquire);
                    if (entry ^ hash) >> RECORD_BITS == 0
                        && let Some(found) = record_of(entry).and_then(&mut is)
                    {
                        return Some(found);
                    }
                }
                // Read last, unlike in `chain`: an entry may be removed from this bucket after another one, behind it, was added that
                // takes its place.
                next = self.behind(bucket);
            }
            let now = self.versions[shard].load(Ordering::Acquire);
            if now == version {
                return None;
            }
            version = now;
        }
    }

    /// Returns whether there is no entry of a hash.
    #[inline(always)]
    pub(crate) fn is_absent(&self, hash: u64) -> bool {
        self.find(hash, Some).is_none()
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
        self.vacancy_in(state, self.bucket(shard, bucket_of(hash, self.size(shard))), hash, is_taken)
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
                    free = free.or(Some(place));
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
        let size = self.size(shard);
        if state.entries > size * LOAD {
            self.split(state, shard, size);
        } else if state.entries == size * LOAD {
            let version = self.versions[shard].load(Ordering::Relaxed);
            self.versions[shard].store(version | DUE, Ordering::Release);
        }
    }

    /// An empty overflow bucket, and its number.
    fn overflow_bucket(&self, state: &mut ShardIndex) -> Option<(u32, &Bucket)> {
        let number = self.overflow_numbers.take(&mut state.spare)?;
        let bucket = self.overflow.make(number);
        if bucket.is_none() {
            state.spare.push(number);
        }
        bucket.map(|b| (number, b))
    }

    /// Tells readers of a shard that an entry was copied, before the old one is cleared.
    fn moved(&self, shard: usize) {
        let version = self.versions[shard].load(Ordering::Relaxed);
        self.versions[shard].store(version.wrapping_add(1 << SIZE_BITS), Ordering::Release);
    }

    /// Adds a bucket and moves the entries that belong there from another one.
    fn split(&self, state: &mut ShardIndex, shard: usize, size: u32) {
        if size >= 1 << BUCKET_BITS {
            return;
        }
        let from = next_split(size);
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
                // A reader may still be in this bucket, if it was used by another chain: it sees the version of that time.
                place.store(entry, Ordering::Release);
            }
        }
        let version = self.versions[shard].load(Ordering::Relaxed);
        self.versions[shard].store((version & !DUE) + 1, Ordering::Release);
        let first = self.bucket(shard, from);
        for bucket in self.chain(first) {
            bucket.entries.iter().filter(|e| moves(e.load(Ordering::Relaxed))).for_each(clear);
        }
        self.shorten(state, shard, first);
    }

    /// Removes an entry.
    pub(crate) fn remove(&self, state: &mut ShardIndex, hash: u64, record: u32) {
        let (shard, entry) = (shard_of(hash), entry_of(hash, record));
        let first = self.bucket(shard, bucket_of(hash, self.size(shard)));
        let mut entries = self.chain(first).flat_map(|b| &b.entries);
        if let Some(found) = entries.find(|e| e.load(Ordering::Relaxed) == entry) {
            clear(found);
            state.entries -= 1;
            self.shorten(state, shard, first);
        }
    }

    /// Moves entries of overflow buckets to free places before them in their chain, and takes buckets without entries out of it.
    #[inline(always)]
    fn shorten(&self, state: &mut ShardIndex, shard: usize, first: Option<&Bucket>) {
        if let Some(first) = first.filter(|first| first.next.load(Ordering::Relaxed) != 0) {
            while self.drop_last(state, shard, first) {}
        }
    }

    /// As `shorten`, for the last bucket of a chain. `false`: the chain stays as it is.
    #[inline(never)]
    fn drop_last(&self, state: &mut ShardIndex, shard: usize, first: &Bucket) -> bool {
        let (mut before, mut last) = (None, first);
        while let Some(next) = self.chain(Some(last)).nth(1) {
            (before, last) = (Some(last), next);
        }
        let Some(before) = before else { return false };
        let is_free = |entry: &&AtomicU64| entry.load(Ordering::Relaxed) == 0;
        let places = self.chain(Some(first)).take_while(|b| !std::ptr::eq(*b, last)).flat_map(|b| &b.entries);
        let mut places = places.filter(is_free);
        let (mut copied, mut left) = (0u32, false);
        for (at, entry) in last.entries.iter().enumerate().filter(|(_, entry)| !is_free(entry)) {
            match places.next() {
                Some(place) => {
                    place.store(entry.load(Ordering::Relaxed), Ordering::Release);
                    copied |= 1 << at;
                }
                None => left = true,
            }
        }
        if copied != 0 {
            self.moved(shard);
            last.entries
                .iter()
                .enumerate()
                .filter(|(at, _)| copied >> at & 1 != 0)
                .for_each(|(_, e)| clear(e));
        }
        if !left {
            let number = before.next.swap(0, Ordering::Release) as u32 - 1;
            self.overflow_numbers.give_back(&mut state.spare, number);
        }
        !left
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

#[cfg(test)]
impl Index {
    fn insert(&self, state: &mut ShardIndex, hash: u64, record: u32) -> bool {
        let Vacancy::At(place) = self.vacancy(state, hash, |_| false) else { return false };
        self.fill(state, place, hash, record);
        true
    }

    fn has(&self, hash: u64, record: u32) -> bool {
        self.find(hash, |r| (r == record).then_some(())).is_some()
    }
}

#[cfg(all(test, loom))]
mod model;

#[cfg(all(test, not(loom)))]
mod tests;
