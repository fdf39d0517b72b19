//! How many buffers of one pool its owners hold: each has a reserve, and all share the rest.
//!
//! An owner uses its reserve, or what it holds if that is more. What must stay true at every moment, whatever threads do: all
//! owners together never use more than the pool has. So the reserve of an owner is there whenever it asks, because it was
//! taken for this owner when its account was opened. A freed buffer returns to the list of free buffers before its credit is
//! refunded, so an owner that gets a credit always finds a free buffer.

use crate::atomic::{AtomicU32, AtomicU64, Ordering};

/// The buffers of a pool that its owners share, reserves included.
#[derive(Debug)]
pub struct SharedPart {
    size: u32,
    used: AtomicU32,
}

impl SharedPart {
    /// `size` buffers, all free.
    pub fn new(size: u32) -> SharedPart {
        SharedPart { size, used: AtomicU32::new(0) }
    }

    /// Their number.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Buffers that no owner uses at this moment.
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

/// The account of one owner: its reserve in the upper half of the word, and the buffers that it holds in the lower half. Its methods
/// may be called from any thread; one thread opens and closes it.
#[derive(Debug, Default)]
pub struct Held(AtomicU64);

impl Held {
    /// Takes this reserve. `false`: it is not free. Only while the account is closed and nothing is held.
    pub fn open(&self, shared: &SharedPart, reserve: u32) -> bool {
        let opens = shared.take(reserve);
        if opens {
            self.0.store(u64::from(reserve) << 32, Ordering::Relaxed);
        }
        opens
    }

    /// Gives the reserve back, except for buffers that are held; these are given back when they are refunded.
    pub fn close(&self, shared: &SharedPart) {
        let (reserve, held) = halves(self.0.fetch_and(u64::from(u32::MAX), Ordering::AcqRel));
        shared.give_back(reserve.saturating_sub(held));
    }

    /// The reserve.
    pub fn reserve(&self) -> u32 {
        halves(self.0.load(Ordering::Relaxed)).0
    }

    /// Buffers held.
    pub fn held(&self) -> u32 {
        halves(self.0.load(Ordering::Relaxed)).1
    }

    /// Takes up to `want` buffers, so that at most `allowance` are held; returns how many. Buffers within the reserve
    /// are always granted.
    pub fn charge(&self, shared: &SharedPart, want: u32, allowance: u32) -> u32 {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            let (reserve, held) = halves(word);
            let mut n = want.min(allowance.max(reserve).saturating_sub(held));
            let mut beyond = reserve.max(held + n) - reserve.max(held);
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
            match self.0.compare_exchange_weak(
                word,
                word + u64::from(n),
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return n,
                Err(now) => {
                    shared.give_back(beyond);
                    word = now;
                }
            }
        }
    }

    /// Returns `n` buffers that were charged.
    pub fn refund(&self, shared: &SharedPart, n: u32) {
        let (reserve, before) = halves(self.0.fetch_sub(n.into(), Ordering::Release));
        shared.give_back(reserve.max(before) - reserve.max(before - n));
    }
}

/// The reserve and the buffers held, of an account's word.
fn halves(word: u64) -> (u32, u32) {
    ((word >> 32) as u32, word as u32)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn reserve_first_then_what_is_shared() {
        let shared = SharedPart::new(18);
        let (a, b, c) = (Held::default(), Held::default(), Held::default());
        assert!(a.open(&shared, 4) && b.open(&shared, 4));
        assert_eq!(a.charge(&shared, 100, 100), 14);
        assert_eq!((shared.free(), b.charge(&shared, 100, 100), c.open(&shared, 1)), (0, 4, false));
        a.refund(&shared, 3);
        assert_eq!((shared.free(), b.charge(&shared, 100, 6)), (3, 2));
        a.refund(&shared, 11);
        b.refund(&shared, 6);
        assert_eq!((shared.free(), a.held(), b.held()), (10, 0, 0));
        assert_eq!(a.charge(&shared, 100, 0), 4);
    }

    #[test]
    fn a_closed_account_gives_back_what_it_does_not_hold() {
        let shared = SharedPart::new(20);
        let owners = [Held::default(), Held::default()];
        assert!(owners.iter().all(|owner| owner.open(&shared, 6)));
        assert_eq!((owners[0].charge(&shared, 4, 20), owners[1].charge(&shared, 9, 20)), (4, 9));
        owners.iter().for_each(|owner| owner.close(&shared));
        assert_eq!((shared.free(), owners[0].reserve(), owners[1].held()), (7, 0, 9));
        owners[0].refund(&shared, 4);
        owners[1].refund(&shared, 9);
        assert_eq!(shared.free(), 20);
    }
}
