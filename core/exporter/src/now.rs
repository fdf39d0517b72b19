//! The time that exporters get with each call.

use units::Millis;

/// Microseconds of a second.
const SECOND: u64 = 1_000_000;

/// The time of a call: the monotonic clock, by which timers run, and the wall clock, which records contain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// The monotonic clock.
    pub mono: Millis,
    /// Microseconds since the Unix epoch.
    pub wall: u64,
}

impl Now {
    /// Whole seconds since the Unix epoch.
    pub fn seconds(&self) -> u64 {
        self.wall / SECOND
    }

    /// The same, rounded up.
    pub fn seconds_up(&self) -> u64 {
        self.wall.div_ceil(SECOND)
    }
}
