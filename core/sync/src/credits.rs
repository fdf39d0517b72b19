//! How many buffers of one pool its owners hold: each has a reserve, and all share the rest.
//!
//! An owner's first buffers count against its reserve, the others against the shared part. What must stay true at every
//! moment, whatever threads do: the shared part is never used beyond its size. So the reserve of an owner is there
//! whenever it asks, because only the owner itself can use it. A freed buffer returns to the list of
//! free buffers before its credit is refunded, so an owner that gets a credit always finds a free buffer.

use crate::atomic::{AtomicU32, Ordering};

/// The part of a pool that its owners share.
#[derive(Debug)]
pub struct SharedPart {
    size: u32,
    used: AtomicU32,
}

impl SharedPart {
    /// A part of `size` buffers, all free.
    pub fn new(size: u32) -> SharedPart {
        SharedPart { size, used: AtomicU32::new(0) }
    }

    /// Its size.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Buffers that are free at this moment.
    pub fn free(&self) -> u32 {
        self.size.saturating_sub(self.used.load(Ordering::Relaxed))
    }

    /// Takes all of `n`, or nothing.
    fn take(&self, n: u32) -> bool {
        let more = |used: u32| used.checked_add(n).filter(|sum| *sum <= self.size);
        n == 0 || self.used.fetch_update(Ordering::Acquire, Ordering::Relaxed, more).is_ok()
    }

    fn give_back(&self, n: u32) {
        if n > 0 {
            self.used.fetch_sub(n, Ordering::Release);
        }
    }
}

/// What one owner holds. Its methods may be called from any thread.
#[derive(Debug, Default)]
pub struct Held {
    held: AtomicU32,
    reserve: AtomicU32,
}

impl Held {
    /// Sets the reserve; only while nothing is held.
    pub fn set_reserve(&self, reserve: u32) {
        self.reserve.store(reserve, Ordering::Relaxed);
    }

    /// The reserve.
    pub fn reserve(&self) -> u32 {
        self.reserve.load(Ordering::Relaxed)
    }

    /// Buffers held.
    pub fn held(&self) -> u32 {
        self.held.load(Ordering::Relaxed)
    }

    /// Takes up to `want` buffers, so that at most `allowance` are held; returns how many. Buffers within the reserve
    /// are always granted.
    pub fn charge(&self, shared: &SharedPart, want: u32, allowance: u32) -> u32 {
        let reserve = self.reserve();
        let allowance = allowance.max(reserve);
        let mut held = self.held.load(Ordering::Relaxed);
        loop {
            let mut n = want.min(allowance.saturating_sub(held));
            let mut beyond = beyond(held + n, reserve) - beyond(held, reserve);
            if !shared.take(beyond) {
                // Another thread took some in the meantime: take what is left, or only the reserve.
                let fewer = shared.free().min(beyond);
                n -= beyond - fewer;
                beyond = fewer;
                if !shared.take(beyond) {
                    n -= beyond;
                    beyond = 0;
                }
            }
            if n == 0 {
                return 0;
            }
            match self.held.compare_exchange_weak(held, held + n, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return n,
                Err(now) => {
                    shared.give_back(beyond);
                    held = now;
                }
            }
        }
    }

    /// Returns `n` buffers that were charged.
    pub fn refund(&self, shared: &SharedPart, n: u32) {
        let reserve = self.reserve();
        let before = self.held.fetch_sub(n, Ordering::Release);
        shared.give_back(beyond(before, reserve) - beyond(before - n, reserve));
    }
}

/// How many of `held` buffers are beyond the reserve.
fn beyond(held: u32, reserve: u32) -> u32 {
    held.saturating_sub(reserve)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn reserve_first_then_what_is_shared() {
        let shared = SharedPart::new(10);
        let (a, b) = (Held::default(), Held::default());
        a.set_reserve(4);
        b.set_reserve(4);
        assert_eq!(a.charge(&shared, 100, 100), 14);
        assert_eq!((shared.free(), b.charge(&shared, 100, 100)), (0, 4));
        a.refund(&shared, 3);
        assert_eq!((shared.free(), b.charge(&shared, 100, 6)), (3, 2));
        a.refund(&shared, 11);
        b.refund(&shared, 6);
        assert_eq!((shared.free(), a.held(), b.held()), (10, 0, 0));
        assert_eq!(a.charge(&shared, 100, 0), 4);
    }
}
