//! Quotas of a buffer pool that several owners (rx queues) share: each owner has a reserve, and all share the rest.
//!
//! An owner's usage is max(reserve, held). Invariant: the usage of all owners together never exceeds the size of the pool. The reserve
//! counts as used from [`OwnerQuota::open`] on, so an owner can always get its reserve. A freed buffer returns to the list of free buffers
//! before its quota is released, so an owner that acquires quota always finds a free buffer.

use crate::atomic::{AtomicU32, AtomicU64, Ordering};

/// Size and usage of a pool that several owners share, reserves included.
#[derive(Debug)]
pub struct PoolUsage {
    size: u32,
    used: AtomicU32,
}

impl PoolUsage {
    /// A pool of `size` buffers, none of them used.
    pub fn new(size: u32) -> PoolUsage {
        PoolUsage { size, used: AtomicU32::new(0) }
    }

    /// Number of buffers of the pool.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Number of buffers that no owner uses at this moment.
    pub fn free(&self) -> u32 {
        self.size.saturating_sub(self.used.load(Ordering::Relaxed))
    }

    /// Adds `n` to the usage, unless the usage would then exceed the size of the pool. Returns whether `n` was added.
    fn add_usage(&self, n: u32) -> bool {
        let more = |used: u32| used.checked_add(n).filter(|sum| *sum <= self.size);
        n == 0 || self.used.fetch_update(Ordering::Acquire, Ordering::Relaxed, more).is_ok()
    }

    fn subtract_usage(&self, n: u32) {
        if n > 0 {
            self.used.fetch_sub(n, Ordering::Release);
        }
    }
}

/// The quota of one owner: its reserve in the upper half of the word, and the number of buffers that it holds in the lower half. One thread
/// calls `open` and `close`; any thread may call the other methods.
#[derive(Debug, Default)]
pub struct OwnerQuota(AtomicU64);

impl OwnerQuota {
    /// Opens the quota with this reserve. `false`: the pool has fewer unused buffers. The quota must be closed, and its owner must hold no
    /// buffers.
    pub fn open(&self, pool_usage: &PoolUsage, reserve: u32) -> bool {
        let opens = pool_usage.add_usage(reserve);
        if opens {
            self.0.store(u64::from(reserve) << 32, Ordering::Relaxed);
        }
        opens
    }

    /// Closes the quota and releases its reserve, except for buffers that the owner still holds; these are released when
    /// [`release`](Self::release) is called for them.
    pub fn close(&self, pool_usage: &PoolUsage) {
        let (reserve, held) = halves(self.0.fetch_and(u64::from(u32::MAX), Ordering::AcqRel));
        pool_usage.subtract_usage(reserve.saturating_sub(held));
    }

    /// The reserve.
    pub fn reserve(&self) -> u32 {
        halves(self.0.load(Ordering::Relaxed)).0
    }

    /// Number of buffers that the owner holds.
    pub fn held(&self) -> u32 {
        halves(self.0.load(Ordering::Relaxed)).1
    }

    /// Acquires quota for up to `want` buffers, so that the owner holds at most `allowance`; returns how many. Buffers within the reserve
    /// are always granted.
    pub fn acquire(&self, pool_usage: &PoolUsage, want: u32, allowance: u32) -> u32 {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            let (reserve, held) = halves(word);
            let mut n = want.min(allowance.max(reserve).saturating_sub(held));
            let mut from_shared = reserve.max(held + n) - reserve.max(held);
            if !pool_usage.add_usage(from_shared) {
                // Fewer buffers are unused: acquire the rest of them, or, if another thread is faster, only what the reserve covers.
                let fewer = pool_usage.free().min(from_shared);
                n -= from_shared - fewer;
                from_shared = fewer;
                if !pool_usage.add_usage(from_shared) {
                    n -= from_shared;
                    from_shared = 0;
                }
            }
            if n == 0 {
                return 0;
            }
            match self.0.compare_exchange_weak(
                word,
                word + u64::from(n),
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return n,
                Err(now) => {
                    pool_usage.subtract_usage(from_shared);
                    word = now;
                }
            }
        }
    }

    /// Releases the quota of `n` buffers that the owner has freed.
    pub fn release(&self, pool_usage: &PoolUsage, n: u32) {
        let (reserve, before) = halves(self.0.fetch_sub(n.into(), Ordering::Release));
        pool_usage.subtract_usage(reserve.max(before) - reserve.max(before - n));
    }
}

/// Reserve and number of held buffers in the word of a quota.
fn halves(word: u64) -> (u32, u32) {
    ((word >> 32) as u32, word as u32)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn reserve_first_then_what_is_shared() {
        let pool_usage = PoolUsage::new(18);
        let (a, b, c) = (OwnerQuota::default(), OwnerQuota::default(), OwnerQuota::default());
        assert!(a.open(&pool_usage, 4) && b.open(&pool_usage, 4));
        assert_eq!(a.acquire(&pool_usage, 100, 100), 14);
        assert_eq!(
            (pool_usage.free(), b.acquire(&pool_usage, 100, 100), c.open(&pool_usage, 1)),
            (0, 4, false)
        );
        a.release(&pool_usage, 3);
        assert_eq!((pool_usage.free(), b.acquire(&pool_usage, 100, 6)), (3, 2));
        a.release(&pool_usage, 11);
        b.release(&pool_usage, 6);
        assert_eq!((pool_usage.free(), a.held(), b.held()), (10, 0, 0));
        assert_eq!(a.acquire(&pool_usage, 100, 0), 4);
    }

    #[test]
    fn a_closed_quota_releases_what_it_does_not_hold() {
        let pool_usage = PoolUsage::new(20);
        let owners = [OwnerQuota::default(), OwnerQuota::default()];
        assert!(owners.iter().all(|owner| owner.open(&pool_usage, 6)));
        assert_eq!((owners[0].acquire(&pool_usage, 4, 20), owners[1].acquire(&pool_usage, 9, 20)), (4, 9));
        owners.iter().for_each(|owner| owner.close(&pool_usage));
        assert_eq!((pool_usage.free(), owners[0].reserve(), owners[1].held()), (7, 0, 9));
        owners[0].release(&pool_usage, 4);
        owners[1].release(&pool_usage, 9);
        assert_eq!(pool_usage.free(), 20);
    }
}
