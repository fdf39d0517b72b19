//! Allocator of slot numbers of a slab (records, IPv6 addresses, overflow buckets). Each shard keeps a few free numbers of its own.

use crate::slab::Slab;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Number of unused numbers that a shard takes at once: so only one of four new connections writes the counter that all shards share.
const BATCH: u32 = 4;

/// Maximum number of free numbers that a shard keeps. A shard with more moves half of them to the list that all shards share. Otherwise
/// each shard would keep as many numbers as it needed in its busiest time, and memory would grow.
const KEEP: usize = 16;

/// Allocates numbers below a limit. A number has one user at a time.
#[derive(Debug)]
pub(crate) struct SlotNumbers {
    /// The first number that was never used.
    used: AtomicU32,
    /// The first number that is too large.
    limit: u32,
    /// The free numbers that all shards share: a stack in a slab, because a slab grows without copying. The connection sweep may free
    /// millions of numbers while workers wait for the lock.
    spare: Slab<AtomicU32>,
    /// Number of shared free numbers. Its lock protects `spare`.
    spare_len: Mutex<u32>,
    /// Copy of `spare_len` that is read without the lock.
    spare_count: AtomicUsize,
}

impl SlotNumbers {
    /// Makes an allocator of the numbers below `limit`; all are unused.
    pub(crate) fn new(limit: u32) -> SlotNumbers {
        SlotNumbers {
            used: AtomicU32::new(0),
            limit,
            spare: Slab::default(),
            spare_len: Mutex::default(),
            spare_count: AtomicUsize::new(0),
        }
    }

    /// Number of numbers that were ever used: all of them are below the returned value.
    pub(crate) fn used(&self) -> u32 {
        self.used.load(Ordering::Relaxed)
    }

    /// Allocates a number. `free`: the free numbers of the shard, whose lock the caller holds; the last of them is the next number, so that
    /// the caller can prefetch its slot. `None`: all numbers are used.
    #[inline]
    pub(crate) fn allocate(&self, free: &mut Vec<u32>) -> Option<u32> {
        if free.is_empty() {
            self.get_more(free)?;
        }
        let number = free.pop();
        if free.is_empty() {
            _ = self.get_more(free);
        }
        number
    }

    /// Adds up to [`KEEP`] / 2 shared free numbers, or else [`BATCH`] numbers that were never used, to `free`.
    fn get_more(&self, free: &mut Vec<u32>) -> Option<()> {
        if self.spare_count.load(Ordering::Relaxed) != 0 {
            let mut len = self.spare();
            let first = len.saturating_sub(KEEP as u32 / 2);
            free.extend((first..*len).filter_map(|at| Some(self.spare.get(at)?.load(Ordering::Relaxed))));
            self.set_spare(&mut len, first);
        }
        if free.is_empty() {
            let more = |n: u32| n.checked_add(BATCH).filter(|end| *end <= self.limit);
            let first = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
            free.extend((first..first + BATCH).rev());
        }
        Some(())
    }

    /// Frees a number. `free`: the free numbers of the shard, whose lock the caller holds.
    #[inline]
    pub(crate) fn release(&self, free: &mut Vec<u32>, number: u32) {
        free.push(number);
        if free.len() > KEEP {
            self.share_free(free);
        }
    }

    /// Moves free numbers to the shared list until half of [`KEEP`] remain. If there is no memory for that, the shard keeps its numbers.
    fn share_free(&self, free: &mut Vec<u32>) {
        let mut len = self.spare();
        let mut end = *len;
        while free.len() > KEEP / 2
            && let Some(place) = self.spare.get_or_allocate(end)
            && let Some(number) = free.pop()
        {
            place.store(number, Ordering::Relaxed);
            end += 1;
        }
        self.set_spare(&mut len, end);
    }

    fn set_spare(&self, len: &mut u32, new: u32) {
        *len = new;
        self.spare_count.store(new as usize, Ordering::Relaxed);
    }

    /// Locks the shared list. The caller holds the lock of a shard, and holds this lock only to copy a few numbers.
    fn spare(&self) -> MutexGuard<'_, u32> {
        self.spare_len.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    const LIMIT: u32 = 1 << 24;

    #[test]
    fn a_shard_takes_the_numbers_that_another_has_given_away() {
        let numbers = SlotNumbers::new(LIMIT);
        let (mut one, mut other) = (Vec::new(), Vec::new());
        let mut taken: Vec<u32> = (0..1000).filter_map(|_| numbers.allocate(&mut one)).collect();
        for number in taken.drain(..) {
            numbers.release(&mut one, number);
            assert!(one.len() <= KEEP);
        }
        taken.extend((0..1000).filter_map(|_| numbers.allocate(&mut other)));
        taken.sort_unstable();
        taken.dedup();
        assert_eq!(taken.len(), 1000);
        let used = numbers.used() as usize;
        assert!(used <= 1000 + KEEP, "{used}");
        // No number is in two lists.
        let spare = *numbers.spare() as usize;
        assert_eq!(
            (taken.len() + one.len() + other.len() + spare, spare),
            (used, numbers.spare_count.load(Ordering::Relaxed))
        );
    }

    #[test]
    fn numbers_end_at_the_limit() {
        let (numbers, mut free) = (SlotNumbers::new(10), Vec::new());
        let taken: Vec<u32> = std::iter::from_fn(|| numbers.allocate(&mut free)).collect();
        assert_eq!(taken, [0, 1, 2, 3, 4, 5, 6, 7]);
    }
}
