//! Upcall coalescing: under load, handler threads serve upcalls in groups instead of being woken for each, as network
//! cards do with interrupts.
//!
//! Waking a thread costs the PMD thread several microseconds, and more in a virtual machine. If the woken thread shares
//! its core with another program, each wake-up also replaces that program's data in the CPU caches. If upcalls arrive so
//! fast that several would queue during a short pause, a handler that has emptied the queue pauses, and workers need not
//! wake a handler. At lower rates, for example one connection after another, each upcall is served at once.
//!
//! **Threads**: any; the state is shared by the threads of a datapath.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// Length of a pause. This is also the longest time that an upcall waits because of a pause.
pub const PAUSE: Duration = Duration::from_micros(250);
/// A handler pauses if at least this many upcalls are expected during a pause.
const UPCALLS_PER_PAUSE_MIN: u64 = 8;
/// The shortest time over which the rate of upcalls is measured.
const SPAN: Duration = Duration::from_millis(5);

/// The measured rate of upcalls, and the handlers that pause.
#[derive(Debug, Default)]
pub struct Coalescing {
    /// Upcalls that were served since `since`.
    served: AtomicU64,
    /// When the present measurement began, in nanoseconds of a monotonic clock.
    since: AtomicU64,
    /// The rate of upcalls as last measured: upcalls per [`PAUSE`].
    upcalls_per_pause: AtomicU64,
    /// Number of handlers that are pausing.
    pausing: AtomicUsize,
}

impl Coalescing {
    /// Counts upcalls that were served.
    pub fn served(&self, upcalls: usize) {
        self.served.fetch_add(upcalls as u64, Ordering::Relaxed);
    }

    /// Whether a handler that found the queue empty at `now` (nanoseconds) should pause.
    pub fn should_pause(&self, now: u64) -> bool {
        let since = self.since.load(Ordering::Relaxed);
        let passed = now.saturating_sub(since);
        // If two threads see the end of a measurement, only one of them evaluates it and begins the next one.
        if passed >= SPAN.as_nanos() as u64
            && self.since.compare_exchange(since, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            let served = u128::from(self.served.swap(0, Ordering::Relaxed));
            let rate = served * PAUSE.as_nanos() / u128::from(passed);
            self.upcalls_per_pause.store(u64::try_from(rate).unwrap_or(u64::MAX), Ordering::Relaxed);
        }
        self.upcalls_per_pause.load(Ordering::Relaxed) >= UPCALLS_PER_PAUSE_MIN
    }

    /// Pauses; upcalls that are queued meanwhile are served afterwards.
    pub fn pause(&self) {
        self.pausing.fetch_add(1, Ordering::SeqCst);
        std::thread::sleep(PAUSE);
        self.pausing.fetch_sub(1, Ordering::SeqCst);
    }

    /// Whether a thread is pausing: it checks the queue after its pause, so no other thread need be woken.
    pub fn is_pausing(&self) -> bool {
        self.pausing.load(Ordering::SeqCst) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// Whether upcalls at this rate per second are coalesced, if the queue is empty after each of them.
    fn coalesces(rate: u64) -> bool {
        let coalescing = Coalescing::default();
        (0..rate / 10).fold(false, |_, i| {
            coalescing.served(1);
            coalescing.should_pause(SECOND + i * SECOND / rate)
        })
    }

    #[test]
    fn only_high_rates_are_coalesced() {
        let rates = [10, 1000, 20_000, 40_000, 1_000_000];
        assert_eq!(rates.map(coalesces), [false, false, false, true, true]);
    }

    #[test]
    fn old_measurements_do_not_count() {
        let coalescing = Coalescing::default();
        let start = SECOND;
        assert!(!coalescing.should_pause(start));
        coalescing.served(1000);
        assert!(coalescing.should_pause(start + SECOND / 100));
        coalescing.served(1000);
        assert!(!coalescing.should_pause(start + 10 * SECOND));
    }
}
