//! The cycle counter.
//!
//! It is the processor's time-stamp counter if that has a constant rate, otherwise the raw monotonic clock in nanoseconds. The
//! number of cycles in a second is measured.

use runtime::cpu_time::monotonic;
use std::sync::OnceLock;
use std::time::Duration;
use units::Cycles;

/// The shortest time that a measurement covers.
const SPAN: Duration = Duration::from_millis(20);
const SECOND: u64 = 1_000_000_000;

/// Nanoseconds and cycles at the first read; cycles are `None` if the counter is the clock itself.
static START: OnceLock<Option<(u64, Cycles)>> = OnceLock::new();

/// Now.
#[inline]
pub fn now() -> Cycles {
    match START.get_or_init(start) {
        Some(_) => dpdk::cycles::now(),
        None => Cycles(monotonic()),
    }
}

/// Cycles in a second, as measured since the first call of `now`. A call soon after that one sleeps for a moment.
pub fn per_second() -> u64 {
    let Some((since, first)) = *START.get_or_init(start) else { return SECOND };
    let mut elapsed = monotonic().saturating_sub(since);
    if elapsed < SPAN.as_nanos() as u64 {
        std::thread::sleep(SPAN);
        elapsed = monotonic().saturating_sub(since);
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
    dpdk::cycles::has_constant_rate().then(|| (monotonic(), dpdk::cycles::now()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_and_the_clock_agree() {
        let (n, c) = (monotonic(), now());
        std::thread::sleep(SPAN);
        let (n, c) = (monotonic() - n, now() - c);
        let told = u128::from(c.0) * u128::from(SECOND) / u128::from(per_second());
        let off = told.abs_diff(u128::from(n));
        assert!(off < u128::from(n) / 2, "{told} {n}");
        assert!(millis(c) <= n / 1_000_000 + 2);
    }
}
