//! A pool of buffers that several queues share.
//!
//! A part of the buffers is set aside for reserves: one for each place of the pool, whether a queue has the place or
//! not. So a queue that gets a place when all shared buffers are in use still gets its reserve. The threshold divides
//! only the shared part.

use crate::threshold::Alpha;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use sync::SharedPart;
use sync::credits::Held;

const FREE: u8 = 0;
const OPEN: u8 = 1;
/// The queue was closed; buffers that it received are still in use.
const CLOSED: u8 = 2;

/// A place for a queue in a pool, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place(pub u32);

/// The account of one place.
#[derive(Debug, Default)]
struct Account {
    state: AtomicU8,
    held: Held,
    peak: AtomicU32,
}

impl Account {
    fn is_used(&self) -> bool {
        match self.state.load(Ordering::Acquire) {
            FREE => false,
            CLOSED => self.held.held() > 0,
            _ => true,
        }
    }
}

/// The accounts of a pool. Places are opened and closed by one thread; any thread may charge and refund.
#[derive(Debug)]
pub struct Pool {
    set_aside: u32,
    shared: SharedPart,
    accounts: Box<[Account]>,
}

impl Pool {
    /// A pool of `buffers` with `places` places, with `set_aside` of its buffers for reserves.
    pub fn new(buffers: u32, places: u32, set_aside: u32) -> Pool {
        let set_aside = set_aside.min(buffers);
        Pool {
            set_aside,
            shared: SharedPart::new(buffers - set_aside),
            accounts: (0..places).map(|_| Account::default()).collect(),
        }
    }

    /// Number of buffers.
    pub fn buffers(&self) -> u32 {
        self.set_aside + self.shared.size()
    }

    /// Buffers of the shared part: all, and those free now.
    pub fn shared(&self) -> (u32, u32) {
        (self.shared.size(), self.shared.free())
    }

    /// Opens a place with this reserve; `None`: no place is free, or the reserves exceed what is set aside.
    pub fn open(&self, reserve: u32) -> Option<Place> {
        let reserves: u32 = self.used().map(|account| account.held.reserve()).sum();
        if reserve > self.set_aside.saturating_sub(reserves) {
            return None;
        }
        let at = self.accounts.iter().position(|account| !account.is_used())?;
        let account = self.accounts.get(at)?;
        account.held.set_reserve(reserve);
        account.peak.store(0, Ordering::Relaxed);
        account.state.store(OPEN, Ordering::Release);
        Some(Place(at as u32))
    }

    /// Closes a place. It is free again when all its buffers were refunded.
    pub fn close(&self, place: Place) {
        if let Some(account) = self.account(place) {
            account.state.store(CLOSED, Ordering::Release);
        }
    }

    fn account(&self, place: Place) -> Option<&Account> {
        self.accounts.get(place.0 as usize)
    }

    fn used(&self) -> impl Iterator<Item = &Account> {
        self.accounts.iter().filter(|account| account.is_used())
    }

    /// Number of places in use, and all places.
    pub fn places(&self) -> (usize, usize) {
        (self.used().count(), self.accounts.len())
    }

    /// The number of buffers that the queue may hold at this moment: its reserve and its share of the shared part.
    pub fn allowance(&self, place: Place, alpha: Alpha) -> u32 {
        let Some(account) = self.account(place) else { return 0 };
        let (reserve, held) = (account.held.reserve(), account.held.held());
        let not_of_others = self.shared.free().saturating_add(held.saturating_sub(reserve));
        reserve.saturating_add(alpha.share(not_of_others))
    }

    /// Charges up to `want` buffers, so that the queue holds at most `allowance`; returns how many.
    pub fn charge(&self, place: Place, want: u32, allowance: u32) -> u32 {
        let Some(account) = self.account(place) else { return 0 };
        let n = account.held.charge(&self.shared, want, allowance);
        if n > 0 {
            account.peak.fetch_max(account.held.held(), Ordering::Relaxed);
        }
        n
    }

    /// Refunds buffers that were charged. They must be free before this call.
    pub fn refund(&self, place: Place, n: u32) {
        if let Some(account) = self.account(place) {
            account.held.refund(&self.shared, n);
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
