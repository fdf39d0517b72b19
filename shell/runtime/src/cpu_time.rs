//! Clocks of nanoseconds that virtual time does not touch: they measure work, they do not date it.

use rustix::time::{ClockId, clock_gettime};

const SECOND: u64 = 1_000_000_000;

/// Nanoseconds of the raw monotonic clock.
pub fn monotonic() -> u64 {
    read(ClockId::MonotonicRaw)
}

/// Nanoseconds of CPU time that the calling thread has had.
pub fn thread_time() -> u64 {
    read(ClockId::ThreadCPUTime)
}

fn read(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * SECOND + time.tv_nsec as u64
}
