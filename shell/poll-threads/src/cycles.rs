//! The cycle counter.
//!
//! It is the CPU's time-stamp counter if that counter has a constant rate, otherwise the raw monotonic clock in
//! nanoseconds. The number of cycles per second is measured.

use runtime::cpu_time::monotonic;
use std::sync::OnceLock;
use std::time::Duration;
use units::Cycles;

/// The shortest time over which the rate is measured.
const MEASURED_TIME_MIN: Duration = Duration::from_millis(20);
const SECOND: u64 = 1_000_000_000;

/// Clock (in nanoseconds) and counter at the first call of [`now`]; `None` if the clock serves as the counter.
static START: OnceLock<Option<(u64, Cycles)>> = OnceLock::new();

/// The present value of the counter.
#[inline]
pub fn now() -> Cycles {
    match START.get_or_init(start) {
        Some(_) => dpdk::cycles::now(),
        None => Cycles(monotonic()),
    }
}

/// Cycles per second, measured since the first call of `now`. Sleeps 20 ms if that call was less than 20 ms ago.
pub fn per_second() -> u64 {
    let Some((since, first)) = *START.get_or_init(start) else { return SECOND };
    let mut elapsed = monotonic().saturating_sub(since);
    if elapsed < MEASURED_TIME_MIN.as_nanos() as u64 {
        std::thread::sleep(MEASURED_TIME_MIN);
        elapsed = monotonic().saturating_sub(since);
    }
    let cycles = (dpdk::cycles::now() - first).0;
    (u128::from(cycles) * u128::from(SECOND) / u128::from(elapsed.max(1))) as u64
}

/// Converts cycles to milliseconds, rounded down.
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
        std::thread::sleep(MEASURED_TIME_MIN);
        let (n, c) = (monotonic() - n, now() - c);
        let told = u128::from(c.0) * u128::from(SECOND) / u128::from(per_second());
        let off = told.abs_diff(u128::from(n));
        assert!(off < u128::from(n) / 2, "{told} {n}");
        assert!(millis(c) <= n / 1_000_000 + 2);
    }
}
