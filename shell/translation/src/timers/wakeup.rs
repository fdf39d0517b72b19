//! Wakes the timers thread and passes it orders.

use crate::upcall::threads::stay_on;
use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Wakes the timers thread.
#[derive(Default)]
pub struct Wakeup {
    state: Mutex<Orders>,
    pub(super) condvar: Condvar,
}

/// Orders for the thread.
#[derive(Default)]
pub(super) struct Orders {
    /// Check the timers.
    pub(super) send_due_now: bool,
    /// End.
    pub(super) close: bool,
    /// Pin yourself to these cores.
    pub(super) cores: Option<BTreeSet<u32>>,
}

impl Wakeup {
    /// Reports that a timer may be due sooner than before.
    pub fn wake(&self) {
        self.orders().send_due_now = true;
        self.condvar.notify_one();
    }

    /// Orders stay usable after a panic of another thread: each change to them is complete.
    pub(super) fn orders(&self) -> MutexGuard<'_, Orders> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sleeps for `time`, or until the thread is woken. Returns false if the thread has to end.
    pub(super) fn sleep(&self, time: Option<Duration>) -> bool {
        let mut orders = self.orders();
        if !orders.send_due_now && !orders.close && orders.cores.is_none() {
            orders = match time {
                Some(time) => {
                    self.condvar.wait_timeout(orders, time).unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.condvar.wait(orders).unwrap_or_else(PoisonError::into_inner),
            };
        }
        orders.send_due_now = false;
        if let Some(cores) = orders.cores.take() {
            stay_on(&cores);
        }
        !orders.close
    }
}
