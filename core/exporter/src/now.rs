//! The time, which callers pass to exporters with each call.

use units::Millis;

/// A second, in microseconds.
const SECOND: u64 = 1_000_000;

/// The time of a call: the monotonic clock is used for timers, the wall clock for times in records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// The monotonic clock.
    pub mono: Millis,
    /// Microseconds since the Unix epoch.
    pub wall: u64,
}

impl Now {
    /// Seconds since the Unix epoch, rounded down.
    pub fn seconds(&self) -> u64 {
        self.wall / SECOND
    }

    /// Seconds since the Unix epoch, rounded up.
    pub fn seconds_up(&self) -> u64 {
        self.wall.div_ceil(SECOND)
    }
}
