//! Upcall coalescing: under load, handler threads serve upcalls in groups instead of being woken for each, as network
//! cards do with interrupts.
//!
//! Waking a thread costs the PMD thread several microseconds, more in a virtual machine; and if the woken thread
//! shares its core with another program, that program loses its caches each time. If upcalls arrive so fast that
//! several would queue during a short pause, a handler that has emptied the queue pauses, and workers need not wake
//! any. At lower rates, for example one connection after another, each upcall is served at once.
//!
//! Shared by the threads of a datapath; any thread may call any function at any time.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// Length of a pause, so the longest time that an upcall waits for its end.
pub const PAUSE: Duration = Duration::from_micros(250);
/// Upcalls expected per pause from which on a pause is taken.
const UPCALLS_PER_PAUSE_MIN: u64 = 8;
/// The shortest time over which the rate of upcalls is measured.
const SPAN: Duration = Duration::from_millis(5);

#[derive(Debug, Default)]
pub struct Coalescing {
    /// Upcalls since `since` (nanoseconds of a monotonic clock).
    served: AtomicU64,
    since: AtomicU64,
    /// Upcalls per pause, as last measured.
    rate: AtomicU64,
    pausing: AtomicUsize,
}

impl Coalescing {
    /// Counts upcalls that were served.
    pub fn served(&self, upcalls: usize) {
        self.served.fetch_add(upcalls as u64, Ordering::Relaxed);
    }

    /// Whether a pause should be taken, given that no upcall waits at `now` (nanoseconds).
    pub fn should_pause(&self, now: u64) -> bool {
        let since = self.since.load(Ordering::Relaxed);
        let passed = now.saturating_sub(since);
        // If two threads see the end of a measurement, one of them begins the next.
        if passed >= SPAN.as_nanos() as u64
            && self.since.compare_exchange(since, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            let served = u128::from(self.served.swap(0, Ordering::Relaxed));
            let rate = served * PAUSE.as_nanos() / u128::from(passed);
            self.rate.store(u64::try_from(rate).unwrap_or(u64::MAX), Ordering::Relaxed);
        }
        self.rate.load(Ordering::Relaxed) >= UPCALLS_PER_PAUSE_MIN
    }

    /// Pauses; upcalls that are queued meanwhile are served afterwards.
    pub fn pause(&self) {
        self.pausing.fetch_add(1, Ordering::SeqCst);
        std::thread::sleep(PAUSE);
        self.pausing.fetch_sub(1, Ordering::SeqCst);
    }

    /// Whether a thread is pausing and will check the queue soon.
    pub fn is_pausing(&self) -> bool {
        self.pausing.load(Ordering::SeqCst) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// Whether upcalls at this rate per second, each of which empties the queue, are coalesced.
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
        let pass_began = SECOND;
        assert!(!coalescing.should_pause(pass_began));
        coalescing.served(1000);
        assert!(coalescing.should_pause(pass_began + SECOND / 100));
        coalescing.served(1000);
        assert!(!coalescing.should_pause(pass_began + 10 * SECOND));
    }
}
