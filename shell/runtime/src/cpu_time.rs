//! Clocks in nanoseconds that are independent of virtual time, to measure durations.

use rustix::time::{ClockId, clock_gettime};

const SECOND: u64 = 1_000_000_000;

/// The raw monotonic clock, in nanoseconds.
pub fn monotonic() -> u64 {
    read(ClockId::MonotonicRaw)
}

/// CPU time of the calling thread, in nanoseconds.
pub fn thread_time() -> u64 {
    read(ClockId::ThreadCPUTime)
}

fn read(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * SECOND + time.tv_nsec as u64
}
