//! A pool of buffers that several queues share.
//!
//! Each queue that has a place in the pool has a reserve, which no other queue can use; what is not reserved is shared. A queue
//! that comes when less than its reserve is free does not get a place, and its owner opens one in another pool. The threshold
//! divides only the shared part.

use crate::threshold::Alpha;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use sync::SharedPart;
use sync::credits::Held;

/// A place for a queue in a pool, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place(pub u32);

/// The account of one place. Buffers of a closed queue may still be in use.
#[derive(Debug, Default)]
struct Account {
    is_open: AtomicBool,
    held: Held,
    peak: AtomicU32,
}

impl Account {
    fn is_used(&self) -> bool {
        self.is_open.load(Ordering::Acquire) || self.held.held() > 0
    }
}

/// The accounts of a pool. Places are opened and closed by one thread; any thread may charge and refund.
#[derive(Debug)]
pub struct Pool {
    buffers: SharedPart,
    accounts: Box<[Account]>,
}

impl Pool {
    /// A pool of `buffers` with `places` places.
    pub fn new(buffers: u32, places: u32) -> Pool {
        let accounts = (0..places).map(|_| Account::default()).collect();
        Pool { buffers: SharedPart::new(buffers), accounts }
    }

    /// Number of buffers.
    pub fn buffers(&self) -> u32 {
        self.buffers.size()
    }

    /// Buffers that are not reserved: all, and those free now.
    pub fn shared(&self) -> (u32, u32) {
        let reserves: u32 = self.accounts.iter().map(|account| account.held.reserve()).sum();
        (self.buffers.size().saturating_sub(reserves), self.buffers.free())
    }

    /// Opens a place with this reserve. `None`: all places are in use, or fewer buffers are free than the reserve needs.
    pub fn open(&self, reserve: u32) -> Option<Place> {
        let at = self.accounts.iter().position(|account| !account.is_used())?;
        let account = self.accounts.get(at)?;
        if !account.held.open(&self.buffers, reserve) {
            return None;
        }
        account.peak.store(0, Ordering::Relaxed);
        account.is_open.store(true, Ordering::Release);
        Some(Place(at as u32))
    }

    /// Closes a place, which gives its reserve back. It is free again when all its buffers were refunded.
    pub fn close(&self, place: Place) {
        if let Some(account) = self.account(place) {
            account.held.close(&self.buffers);
            account.is_open.store(false, Ordering::Release);
        }
    }

    fn account(&self, place: Place) -> Option<&Account> {
        self.accounts.get(place.0 as usize)
    }

    /// Number of places in use, and all places.
    pub fn places(&self) -> (usize, usize) {
        (self.accounts.iter().filter(|account| account.is_used()).count(), self.accounts.len())
    }

    /// The number of buffers that the queue may hold at this moment: its reserve and its share of the shared part.
    pub fn allowance(&self, place: Place, alpha: Alpha) -> u32 {
        let Some(account) = self.account(place) else { return 0 };
        let (reserve, held) = (account.held.reserve(), account.held.held());
        let not_of_others = self.buffers.free().saturating_add(held.saturating_sub(reserve));
        reserve.saturating_add(alpha.share(not_of_others))
    }

    /// Charges up to `want` buffers, so that the queue holds at most `allowance`; returns how many.
    pub fn charge(&self, place: Place, want: u32, allowance: u32) -> u32 {
        let Some(account) = self.account(place) else { return 0 };
        let n = account.held.charge(&self.buffers, want, allowance);
        if n > 0 {
            account.peak.fetch_max(account.held.held(), Ordering::Relaxed);
        }
        n
    }

    /// Refunds buffers that were charged. They must be free before this call.
    pub fn refund(&self, place: Place, n: u32) {
        if let Some(account) = self.account(place) {
            account.held.refund(&self.buffers, n);
        }
    }

    /// Buffers that the queue holds.
    pub fn held(&self, place: Place) -> u32 {
        self.account(place).map_or(0, |account| account.held.held())
    }

    /// The largest number of buffers that the queue has held since its place was opened.
    pub fn peak(&self, place: Place) -> u32 {
        self.account(place).map_or(0, |account| account.peak.load(Ordering::Relaxed))
    }

    /// Buffers that all queues hold.
    pub fn held_by_all(&self) -> u32 {
        self.accounts.iter().map(|account| account.held.held()).sum()
    }
}
