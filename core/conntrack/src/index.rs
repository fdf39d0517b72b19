//! Index of connections by the hashes of their keys: a hash table that readers use without a lock and that grows by one bucket at a time.
//!
//! A bucket is a cache line: seven entries and the number of an overflow bucket. An entry contains 36 bits of the hash and the number of a
//! record; the caller compares the record's key. The highest ten bits of a hash select the *shard*; a writer holds the shard's lock. Each
//! shard grows by linear hashing (W. Litwin, 1980): when it has more than four entries per bucket, one bucket is split, so an insertion
//! splits at most one bucket.
//!
//! **Readers** take no lock. A writer that moves an entry copies the entry first, then changes the *version* of the shard, then clears the
//! old entry. So if a reader finds nothing and the version is unchanged, it has not missed an entry that existed during the complete
//! look-up. A split changes the version as well, because the version contains the number of buckets.
//!
//! **Overflow buckets** are reused. When an entry is removed from a chain with overflow buckets, an entry of the chain's last bucket moves
//! to the free position, and a last bucket without entries leaves the chain. A reader may still be in that bucket, even when the bucket is
//! already in another chain. The reader misses nothing, because no bucket followed the last one, and it compares the key of each record
//! that it finds.

use crate::atomic::{AtomicU64, Ordering};
use crate::numbers::SlotNumbers;
use crate::slab::{SLOTS_MAX, Slab};

/// Number of shards: large enough that 16 workers that all begin connections rarely need the same lock.
pub const SHARDS: usize = 1 << SHARD_BITS;
const SHARD_BITS: u32 = if cfg!(loom) { 1 } else { 10 };
/// Bits of an entry that contain a record number plus one; 0 means an empty entry.
const RECORD_BITS: u32 = 28;
/// Maximum number of records.
pub(crate) const RECORDS_MAX: u32 = (1 << RECORD_BITS) - 2;
/// Bits of a hash that select the bucket in its shard; this limits the growth of a shard.
const BUCKET_BITS: u32 = 18;
/// Entries of a bucket: seven and the number of the next bucket fill a cache line.
const ENTRIES: usize = if cfg!(loom) { 2 } else { 7 };
/// Average number of entries per bucket above which a bucket is added.
const LOAD_MAX: u32 = if cfg!(loom) { 8 } else { 4 };
/// Width of the part of a shard's version that contains the number of buckets and [`SPLIT_DUE`].
const SIZE_BITS: u32 = 32;
/// The bit of a version that is set if the next insertion splits a bucket. Only a hint for prefetches.
const SPLIT_DUE: u64 = 1 << 31;

/// A bucket: one cache line.
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
    /// Further buckets of chains.
    overflow: Slab<Bucket>,
    overflow_numbers: SlotNumbers,
    /// For each shard: the number of its buckets, [`SPLIT_DUE`], and in the upper half how often entries of its overflow buckets were moved.
    versions: Box<[AtomicU64]>,
}

/// Result of the search for a free position of a new entry.
#[derive(Debug)]
pub(crate) enum Vacancy<'a> {
    /// A free position.
    At(&'a AtomicU64),
    /// There is none, because another record has the key.
    Taken,
    /// There is none: out of memory.
    Full,
}

/// The part of the index that the lock of a shard protects.
#[derive(Debug, Default)]
pub(crate) struct ShardIndex {
    entries: u32,
    /// Numbers of overflow buckets that are in no chain and have no entries.
    free_overflow: Vec<u32>,
}

/// The shard of a hash.
#[inline(always)]
pub(crate) fn shard_of(hash: u64) -> usize {
    (hash >> (64 - SHARD_BITS)) as usize
}

/// The entry for a record with this hash.
fn entry_of(hash: u64, record: u32) -> u64 {
    hash >> RECORD_BITS << RECORD_BITS | u64::from(record + 1)
}

/// The number of buckets of a shard with this version.
#[inline(always)]
fn size_of(version: u64) -> u32 {
    version as u32 & !(SPLIT_DUE as u32)
}

/// The bucket that is split next in a shard of `size` buckets.
#[inline(always)]
fn next_split(size: u32) -> u32 {
    size - (1 << size.ilog2())
}

/// The bucket of a hash, as an index in its shard, which has `size` buckets (linear hashing).
#[inline(always)]
fn bucket_of(hash: u64, size: u32) -> u32 {
    let bits = (hash >> RECORD_BITS) as u32 & ((1 << BUCKET_BITS) - 1);
    let level = size.ilog2();
    let wide = bits & ((2 << level) - 1);
    if wide < size { wide } else { bits & ((1 << level) - 1) }
}

impl Bucket {
    /// The record number in this bucket's first entry with this hash. The record's key is not compared.
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
            overflow_numbers: SlotNumbers::new(SLOTS_MAX),
            versions: (0..SHARDS).map(|_| AtomicU64::new(1)).collect(),
        };
        // The first bucket of each shard.
        (0..SHARDS as u32).for_each(|shard| _ = index.buckets.get_or_allocate(shard));
        index
    }
}

impl Index {
    /// The bucket with index `at` of a shard.
    #[inline(always)]
    fn bucket(&self, shard: usize, at: u32) -> Option<&Bucket> {
        self.buckets.get(at << SHARD_BITS | shard as u32)
    }

    /// The buckets of a chain.
    #[inline(always)]
    fn chain<'a>(&'a self, first: Option<&'a Bucket>) -> impl Iterator<Item = &'a Bucket> {
        std::iter::successors(first, |bucket| self.next_bucket(bucket))
    }

    /// The next bucket of a chain.
    #[inline(always)]
    fn next_bucket(&self, bucket: &Bucket) -> Option<&Bucket> {
        match bucket.next.load(Ordering::Acquire) {
            0 => None,
            next => self.overflow.get(next as u32 - 1),
        }
    }

    /// The record number in the first entry with this hash, in the chain of a bucket. The record's key is not compared. For random hashes,
    /// 3 % of the entries are in overflow buckets, which are not prefetched.
    #[inline(always)]
    pub(crate) fn guess(&self, first: &Bucket, hash: u64) -> Option<u32> {
        match first.guess(hash) {
            None if first.next.load(Ordering::Relaxed) != 0 => self.guess_in_overflow(first, hash),
            found => found,
        }
    }

    #[inline(never)]
    fn guess_in_overflow(&self, first: &Bucket, hash: u64) -> Option<u32> {
        self.chain(Some(first)).skip(1).find_map(|bucket| bucket.guess(hash))
    }

    /// Number of buckets of a shard whose lock the caller holds.
    fn size(&self, shard: usize) -> u32 {
        size_of(self.versions[shard].load(Ordering::Relaxed))
    }

    /// Prefetches the bucket of a hash and returns the bucket.
    #[inline(always)]
    pub(crate) fn prefetch(&self, hash: u64) -> Option<&Bucket> {
        let shard = shard_of(hash);
        let bucket = self.bucket(shard, bucket_of(hash, self.size(shard)))?;
        cpu::prefetch_read(bucket);
        Some(bucket)
    }

    /// Prefetches the buckets that the insertion of an entry with this hash reads and writes.
    #[inline(always)]
    pub(crate) fn prefetch_insertion(&self, hash: u64) {
        let shard = shard_of(hash);
        let version = self.versions[shard].load(Ordering::Relaxed);
        let size = size_of(version);
        let prefetch = |at: u32| self.bucket(shard, at).into_iter().for_each(cpu::prefetch_read);
        prefetch(bucket_of(hash, size));
        if version & SPLIT_DUE != 0 {
            prefetch(next_split(size));
            prefetch(size);
        }
    }

    /// Calls `is` for the record numbers of the entries with this hash, until `is` returns a result, and returns that result. Takes no
    /// lock.
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
                // `next` is read after the entries, unlike in `chain`. Otherwise a writer could add a new entry of the same key in a later
                // bucket and then remove the old entry from this bucket, and the reader would miss both.
                next = self.next_bucket(bucket);
            }
            let now = self.versions[shard].load(Ordering::Acquire);
            if now == version {
                return None;
            }
            version = now;
        }
    }

    /// Returns whether no entry has this hash.
    #[inline(always)]
    pub(crate) fn is_absent(&self, hash: u64) -> bool {
        self.find(hash, Some).is_none()
    }

    /// Finds a free position for an entry with this hash. Returns [`Vacancy::Taken`] if `is_taken` is true for a record with this hash. The
    /// caller of this function and of the functions below holds the lock of the hash's shard.
    pub(crate) fn vacancy(
        &self,
        state: &mut ShardIndex,
        hash: u64,
        is_taken: impl FnMut(u32) -> bool,
    ) -> Vacancy<'_> {
        let shard = shard_of(hash);
        self.vacancy_in(state, self.bucket(shard, bucket_of(hash, self.size(shard))), hash, is_taken)
    }

    /// [`vacancy`](Self::vacancy) in the chain that begins with bucket `first`.
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

    /// Stores an entry at a position that was found free under the same lock, and splits a bucket if one is due.
    pub(crate) fn fill(&self, state: &mut ShardIndex, place: &AtomicU64, hash: u64, record: u32) {
        place.store(entry_of(hash, record), Ordering::Release);
        state.entries += 1;
        let shard = shard_of(hash);
        let size = self.size(shard);
        if state.entries > size * LOAD_MAX {
            self.split(state, shard, size);
        } else if state.entries == size * LOAD_MAX {
            let version = self.versions[shard].load(Ordering::Relaxed);
            self.versions[shard].store(version | SPLIT_DUE, Ordering::Release);
        }
    }

    /// Allocates an empty overflow bucket; returns it with its number.
    fn overflow_bucket(&self, state: &mut ShardIndex) -> Option<(u32, &Bucket)> {
        let number = self.overflow_numbers.allocate(&mut state.free_overflow)?;
        let bucket = self.overflow.get_or_allocate(number);
        if bucket.is_none() {
            state.free_overflow.push(number);
        }
        bucket.map(|b| (number, b))
    }

    /// Allocates a chunk of buckets that will be needed soon. Returns false if all are allocated.
    ///
    /// **Thread**: one at a time.
    pub(crate) fn allocate_ahead(&self) -> bool {
        let sizes = self.versions.iter().map(|version| size_of(version.load(Ordering::Relaxed)));
        let used = sizes.max().unwrap_or(0) << SHARD_BITS;
        self.buckets.allocate_ahead(used) | self.overflow.allocate_ahead(self.overflow_numbers.used())
    }

    /// Changes the version of a shard after an entry was copied and before the old entry is cleared, so that readers search again.
    fn change_version(&self, shard: usize) {
        let version = self.versions[shard].load(Ordering::Relaxed);
        self.versions[shard].store(version.wrapping_add(1 << SIZE_BITS), Ordering::Release);
    }

    /// Adds a bucket to a shard, and moves to it the entries of the bucket at the split position that now belong there.
    fn split(&self, state: &mut ShardIndex, shard: usize, size: u32) {
        if size >= 1 << BUCKET_BITS {
            return;
        }
        let from = next_split(size);
        let Some(new) = self.buckets.get_or_allocate(size << SHARD_BITS | shard as u32) else { return };
        // All entries of the old bucket have the same low hash bits. The next higher bit is set in the entries that move.
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
                    // Out of memory: the old bucket stays as it was, and the copies in the new bucket are cleared.
                    return self.chain(Some(new)).for_each(|b| b.entries.iter().for_each(clear));
                };
                // If the new chain reuses an overflow bucket, a reader of that bucket's former chain may still be in it. By loading this
                // entry (acquire) that reader sees the shard's present version.
                place.store(entry, Ordering::Release);
            }
        }
        let version = self.versions[shard].load(Ordering::Relaxed);
        self.versions[shard].store((version & !SPLIT_DUE) + 1, Ordering::Release);
        let first = self.bucket(shard, from);
        for bucket in self.chain(first) {
            bucket.entries.iter().filter(|e| moves(e.load(Ordering::Relaxed))).for_each(clear);
        }
        self.compact_chain(state, shard, first);
    }

    /// Removes the entry of a record.
    pub(crate) fn remove(&self, state: &mut ShardIndex, hash: u64, record: u32) {
        let (shard, entry) = (shard_of(hash), entry_of(hash, record));
        let first = self.bucket(shard, bucket_of(hash, self.size(shard)));
        let mut entries = self.chain(first).flat_map(|b| &b.entries);
        if let Some(found) = entries.find(|e| e.load(Ordering::Relaxed) == entry) {
            clear(found);
            state.entries -= 1;
            self.compact_chain(state, shard, first);
        }
    }

    /// Moves entries of overflow buckets to free positions in earlier buckets of their chain, and removes buckets without entries from the
    /// chain.
    #[inline(always)]
    fn compact_chain(&self, state: &mut ShardIndex, shard: usize, first: Option<&Bucket>) {
        if let Some(first) = first.filter(|first| first.next.load(Ordering::Relaxed) != 0) {
            while self.compact_last_bucket(state, shard, first) {}
        }
    }

    /// Moves the entries of the last bucket of a chain to free positions in earlier buckets. If none are left, removes the bucket from the
    /// chain and returns true.
    #[inline(never)]
    fn compact_last_bucket(&self, state: &mut ShardIndex, shard: usize, first: &Bucket) -> bool {
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
            self.change_version(shard);
            last.entries
                .iter()
                .enumerate()
                .filter(|(at, _)| copied >> at & 1 != 0)
                .for_each(|(_, e)| clear(e));
        }
        if !left {
            let number = before.next.swap(0, Ordering::Release) as u32 - 1;
            self.overflow_numbers.release(&mut state.free_overflow, number);
        }
        !left
    }
}

fn clear(entry: &AtomicU64) {
    entry.store(0, Ordering::Release);
}

/// The record number in an entry; `None`: the entry is empty.
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
