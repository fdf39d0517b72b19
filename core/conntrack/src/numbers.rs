//! Numbers of the slots of a slab, some of which shards keep for themselves: numbers of records, of IPv6 addresses, of overflow buckets.

use crate::slab::Slab;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Number of new slots that a shard takes at once: three of four new connections do not write the counter that all shards share.
const BATCH: u32 = 4;

/// Unused numbers that a shard keeps for itself. If it has more, it gives half of them to other shards. Otherwise each shard would keep
/// as many as it needed in its busiest time, and memory would grow.
const KEEP: usize = 16;

/// Hands out numbers below a limit, each to one user at a time.
#[derive(Debug)]
pub(crate) struct Numbers {
    /// The first number that was never used; `limit`: the first that is too large.
    used: AtomicU32,
    limit: u32,
    /// The unused ones that shards have given away, and how many they are: a stack in a slab, which grows without copying. The sweep
    /// may give millions away, while workers wait for the lock.
    spare: Slab<AtomicU32>,
    spare_len: Mutex<u32>,
    spare_count: AtomicUsize,
}

impl Numbers {
    /// All numbers below `limit` are unused.
    pub(crate) fn new(limit: u32) -> Numbers {
        Numbers {
            used: AtomicU32::new(0),
            limit,
            spare: Slab::default(),
            spare_len: Mutex::default(),
            spare_count: AtomicUsize::new(0),
        }
    }

    /// How many numbers were ever used: all of them are below this one.
    pub(crate) fn used(&self) -> u32 {
        self.used.load(Ordering::Relaxed)
    }

    /// Takes an unused number; `free` are those of the shard, which is locked.
    #[inline]
    pub(crate) fn take(&self, free: &mut Vec<u32>) -> Option<u32> {
        if free.is_empty() {
            self.get_more(free)?;
        }
        free.pop()
    }

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

    /// Returns a number to the unused ones.
    #[inline]
    pub(crate) fn give_back(&self, free: &mut Vec<u32>, number: u32) {
        free.push(number);
        if free.len() > KEEP {
            self.give_away(free);
        }
    }

    /// Gives numbers to other shards until half of [`KEEP`] remain. If there is no memory for that, the shard keeps them.
    fn give_away(&self, free: &mut Vec<u32>) {
        let mut len = self.spare();
        let mut end = *len;
        while free.len() > KEEP / 2
            && let Some(place) = self.spare.make(end)
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

    /// Locked within the lock of a shard, for the copy of a few numbers.
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
        let numbers = Numbers::new(LIMIT);
        let (mut one, mut other) = (Vec::new(), Vec::new());
        let mut taken: Vec<u32> = (0..1000).filter_map(|_| numbers.take(&mut one)).collect();
        for number in taken.drain(..) {
            numbers.give_back(&mut one, number);
            assert!(one.len() <= KEEP);
        }
        taken.extend((0..1000).filter_map(|_| numbers.take(&mut other)));
        taken.sort_unstable();
        taken.dedup();
        assert_eq!(taken.len(), 1000);
        let used = numbers.used() as usize;
        assert!(used <= 1000 + KEEP, "{used}");
        // No number is in two places.
        let spare = *numbers.spare() as usize;
        assert_eq!(
            (taken.len() + one.len() + other.len() + spare, spare),
            (used, numbers.spare_count.load(Ordering::Relaxed))
        );
    }

    #[test]
    fn numbers_end_at_the_limit() {
        let (numbers, mut free) = (Numbers::new(10), Vec::new());
        let taken: Vec<u32> = std::iter::from_fn(|| numbers.take(&mut free)).collect();
        assert_eq!(taken, [0, 1, 2, 3, 4, 5, 6, 7]);
    }
}
