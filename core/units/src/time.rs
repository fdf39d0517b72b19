//! Moments and durations. Functions of `core` get the time as an argument; only `shell` reads clocks.

use std::ops::{Add, Sub};

/// A moment of the monotonic clock, which tests can control (`time/stop`, `time/warp`), or a duration, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Millis(pub u64);

impl Millis {
    /// A deadline that is never reached.
    pub const NEVER: Millis = Millis(u64::MAX);

    /// Converts from seconds.
    pub const fn from_secs(secs: u64) -> Millis {
        Millis(secs * 1000)
    }

    /// Time since `earlier`; zero if `earlier` is later.
    pub fn since(self, earlier: Millis) -> Millis {
        Millis(self.0.saturating_sub(earlier.0))
    }
}

impl Add for Millis {
    type Output = Millis;
    fn add(self, o: Millis) -> Millis {
        Millis(self.0.saturating_add(o.0))
    }
}

impl Sub for Millis {
    type Output = Millis;
    fn sub(self, o: Millis) -> Millis {
        self.since(o)
    }
}

/// Microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Micros(pub u64);

/// Nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

/// Ticks of the time-stamp counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cycles(pub u64);

impl Sub for Cycles {
    type Output = Cycles;
    /// A negative difference counts as zero: the counter may go back when a thread moves to another CPU socket.
    fn sub(self, earlier: Cycles) -> Cycles {
        Cycles(self.0.saturating_sub(earlier.0))
    }
}
