//! Ends the sleep of the timers thread, and gives it orders.

use crate::upcall::threads::stay_on;
use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Ends the thread's sleep.
#[derive(Default)]
pub struct Wakeup {
    state: Mutex<Orders>,
    pub(super) condvar: Condvar,
}

/// What the thread is to do.
#[derive(Default)]
pub(super) struct Orders {
    /// Look at the clocks.
    pub(super) look: bool,
    /// End.
    pub(super) close: bool,
    /// Stay on these cores.
    pub(super) cores: Option<BTreeSet<u32>>,
}

impl Wakeup {
    /// A clock may be due sooner than it was.
    pub fn wake(&self) {
        self.orders().look = true;
        self.condvar.notify_one();
    }

    /// A panic elsewhere leaves the orders usable: each change to it is complete in itself.
    pub(super) fn orders(&self) -> MutexGuard<'_, Orders> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sleeps for so long, or until it is woken; `false`: the thread is to end.
    pub(super) fn sleep(&self, time: Option<Duration>) -> bool {
        let mut orders = self.orders();
        if !orders.look && !orders.close && orders.cores.is_none() {
            orders = match time {
                Some(time) => {
                    self.condvar.wait_timeout(orders, time).unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.condvar.wait(orders).unwrap_or_else(PoisonError::into_inner),
            };
        }
        orders.look = false;
        if let Some(cores) = orders.cores.take() {
            stay_on(&cores);
        }
        !orders.close
    }
}
