//! Wakes the timer thread and passes requests to it.

use crate::upcall::threads::pin_to_cores;
use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Wakes the timer thread.
#[derive(Default)]
pub struct Wakeup {
    requests: Mutex<Requests>,
    pub(super) condvar: Condvar,
}

/// Requests to the timer thread.
#[derive(Default)]
pub(super) struct Requests {
    /// Check the timers.
    pub(super) check_timers: bool,
    /// End the thread.
    pub(super) close: bool,
    /// Pin the thread to these cores.
    pub(super) cores: Option<BTreeSet<u32>>,
}

impl Wakeup {
    /// Reports that a timer may be due sooner than before.
    pub fn wake(&self) {
        self.requests().check_timers = true;
        self.condvar.notify_one();
    }

    /// Locks the requests. They stay usable after a panic of another thread, because no panic can leave a change incomplete.
    pub(super) fn requests(&self) -> MutexGuard<'_, Requests> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sleeps for `time` (`None`: without limit) or until there is a request. Returns false if the thread has to end.
    pub(super) fn sleep(&self, time: Option<Duration>) -> bool {
        let mut requests = self.requests();
        if !requests.check_timers && !requests.close && requests.cores.is_none() {
            requests = match time {
                Some(time) => {
                    self.condvar.wait_timeout(requests, time).unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.condvar.wait(requests).unwrap_or_else(PoisonError::into_inner),
            };
        }
        requests.check_timers = false;
        if let Some(cores) = requests.cores.take() {
            pin_to_cores(&cores);
        }
        !requests.close
    }
}
