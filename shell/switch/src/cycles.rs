//! The cycle counter as the shell reads it.

use units::Cycles;

/// Now. Nanoseconds of the raw monotonic clock serve as cycles: they tick at a fixed rate on every machine, and reading
/// them costs about as much as the time-stamp counter that they come from.
pub fn now() -> Cycles {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::MonotonicRaw);
    Cycles(t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64)
}
