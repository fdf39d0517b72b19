//! The cycle counter as the shell reads it.
//!
//! It is the processor's time-stamp counter where that ticks at one rate, else nanoseconds of the raw monotonic clock,
//! which tick at a fixed rate on every machine. How many cycles a second has is measured.

use rustix::time::{ClockId, clock_gettime};
use std::sync::OnceLock;
use std::time::Duration;
use units::Cycles;

/// A measurement covers so much time at least.
const SPAN: Duration = Duration::from_millis(20);
const SECOND: u64 = 1_000_000_000;

/// When the counter was first asked for: nanoseconds, and cycles; `None`: nanoseconds are the cycles.
static START: OnceLock<Option<(u64, Cycles)>> = OnceLock::new();

/// Now.
#[inline]
pub fn now() -> Cycles {
    match START.get_or_init(start) {
        Some(_) => dpdk::cycles::now(),
        None => Cycles(nanoseconds()),
    }
}

/// Cycles in a second, as measured since the first call of `now`. A call soon after that one sleeps for a moment.
pub fn per_second() -> u64 {
    let Some((since, first)) = *START.get_or_init(start) else { return SECOND };
    let mut elapsed = nanoseconds().saturating_sub(since);
    if elapsed < SPAN.as_nanos() as u64 {
        std::thread::sleep(SPAN);
        elapsed = nanoseconds().saturating_sub(since);
    }
    let cycles = (dpdk::cycles::now() - first).0;
    (u128::from(cycles) * u128::from(SECOND) / u128::from(elapsed.max(1))) as u64
}

/// Whole milliseconds.
pub fn millis(cycles: Cycles) -> u64 {
    match START.get_or_init(start) {
        Some(_) => (u128::from(cycles.0) * 1000 / u128::from(per_second().max(1))) as u64,
        None => cycles.0 / 1_000_000,
    }
}

fn start() -> Option<(u64, Cycles)> {
    dpdk::cycles::tells_time().then(|| (nanoseconds(), dpdk::cycles::now()))
}

/// Of the raw monotonic clock.
pub(crate) fn nanoseconds() -> u64 {
    read(ClockId::MonotonicRaw)
}

/// Nanoseconds of a processor that the calling thread has had.
pub(crate) fn processor_time() -> u64 {
    read(ClockId::ThreadCPUTime)
}

fn read(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * SECOND + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_and_the_clock_agree() {
        let (n, c) = (nanoseconds(), now());
        std::thread::sleep(SPAN);
        let (n, c) = (nanoseconds() - n, now() - c);
        let told = u128::from(c.0) * u128::from(SECOND) / u128::from(per_second());
        let off = told.abs_diff(u128::from(n));
        assert!(off < u128::from(n) / 2, "{told} {n}");
        assert!(millis(c) <= n / 1_000_000 + 2);
    }
}
