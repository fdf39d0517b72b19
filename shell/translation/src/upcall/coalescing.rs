//! When handler threads gather upcalls instead of being woken for each.
//!
//! To wake a thread costs who does it several microseconds of its poll thread, more in a guest, and where the thread that is
//! woken shares its core with somebody, that one loses its caches each time. Where upcalls come so fast that several would be
//! waiting after a short pause, a thread that has emptied the queue takes that pause, and nobody has to wake it: what network cards
//! do with interrupts. Who asks for fewer, one connection after the other, is answered at once.
//!
//! Shared by the threads of a datapath; any may call anything at any time.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// How long a pause takes, and so the longest that an upcall waits for its end.
pub const PAUSE: Duration = Duration::from_micros(250);
/// Upcalls in the time of a pause from which on it is worth it.
const WORTH: u64 = 8;
/// A rate is that of so long at least.
const SPAN: Duration = Duration::from_millis(5);

#[derive(Debug, Default)]
pub struct Coalescing {
    /// Upcalls since `since`, nanoseconds of any clock.
    served: AtomicU64,
    since: AtomicU64,
    /// Upcalls in the time of a pause, as far as is known.
    rate: AtomicU64,
    pausing: AtomicUsize,
}

impl Coalescing {
    /// So many have been answered.
    pub fn served(&self, upcalls: usize) {
        self.served.fetch_add(upcalls as u64, Ordering::Relaxed);
    }

    /// Nothing waits at `now`, nanoseconds: a pause is worth it.
    pub fn is_worth_it(&self, now: u64) -> bool {
        let since = self.since.load(Ordering::Relaxed);
        let passed = now.saturating_sub(since);
        // Of two that see the end of a span one begins the next.
        if passed >= SPAN.as_nanos() as u64
            && self.since.compare_exchange(since, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            let served = u128::from(self.served.swap(0, Ordering::Relaxed));
            let rate = served * PAUSE.as_nanos() / u128::from(passed);
            self.rate.store(u64::try_from(rate).unwrap_or(u64::MAX), Ordering::Relaxed);
        }
        self.rate.load(Ordering::Relaxed) >= WORTH
    }

    /// Takes a pause. What is queued meanwhile is found after it.
    pub fn pause(&self) {
        self.pausing.fetch_add(1, Ordering::SeqCst);
        std::thread::sleep(PAUSE);
        self.pausing.fetch_sub(1, Ordering::SeqCst);
    }

    /// Somebody will look at the queue soon.
    pub fn is_pausing(&self) -> bool {
        self.pausing.load(Ordering::SeqCst) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// At so many upcalls a second, each of which empties the queue.
    fn coalesces(rate: u64) -> bool {
        let coalescing = Coalescing::default();
        (0..rate / 10).fold(false, |_, i| {
            coalescing.served(1);
            coalescing.is_worth_it(SECOND + i * SECOND / rate)
        })
    }

    #[test]
    fn only_many_are_gathered() {
        let rates = [10, 1000, 20_000, 40_000, 1_000_000];
        assert_eq!(rates.map(coalesces), [false, false, false, true, true]);
    }

    #[test]
    fn what_was_long_ago_does_not_count() {
        let coalescing = Coalescing::default();
        let began = SECOND;
        assert!(!coalescing.is_worth_it(began));
        coalescing.served(1000);
        assert!(coalescing.is_worth_it(began + SECOND / 100));
        coalescing.served(1000);
        assert!(!coalescing.is_worth_it(began + 10 * SECOND));
    }
}
