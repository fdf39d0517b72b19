//! Timers, and times in BPDUs.

use units::Millis;

/// Units of times in BPDUs per second.
const UNITS: u64 = 256;

/// Converts a time from 1/256 s to milliseconds.
pub(super) fn millis(units: u16) -> Millis {
    Millis(u64::from(units) * 1000 / UNITS)
}

/// Converts a time from milliseconds to 1/256 s.
pub(super) fn units(time: Millis) -> u16 {
    u16::try_from(time.0.saturating_mul(UNITS) / 1000).unwrap_or(u16::MAX)
}

/// Times that the root distributes, in 1/256 s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Times {
    pub(super) hello_time: u16,
    pub(super) max_age: u16,
    pub(super) forward_delay: u16,
}

impl Times {
    pub(super) fn new(hello_time: Millis, max_age: Millis, forward_delay: Millis) -> Times {
        let [hello_time, max_age, forward_delay] = [hello_time, max_age, forward_delay].map(units);
        Times { hello_time, max_age, forward_delay }
    }

    /// Hello time, maximum age and forward delay in whole seconds.
    pub(super) fn seconds(self) -> [u64; 3] {
        [self.hello_time, self.max_age, self.forward_delay].map(|time| millis(time).0 / 1000)
    }
}

/// A timer, which counts up (§8.5.6).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Timer(Option<Running>);

#[derive(Clone, Copy, Debug)]
struct Running {
    since: Millis,
    /// The timer's value at that time.
    value: Millis,
}

impl Timer {
    /// Starts the timer with a value.
    pub(super) fn start(&mut self, value: Millis, now: Millis) {
        self.0 = Some(Running { since: now, value });
    }

    pub(super) fn stop(&mut self) {
        self.0 = None;
    }

    pub(super) fn is_active(&self) -> bool {
        self.0.is_some()
    }

    /// The timer's value; zero if the timer is stopped.
    pub(super) fn value(&self, now: Millis) -> Millis {
        self.0.map_or(Millis(0), |t| t.value + now.since(t.since))
    }

    /// When the timer reaches `limit`; `None` if the timer is stopped.
    pub(super) fn expiry(&self, limit: Millis) -> Option<Millis> {
        self.0.map(|t| t.since + limit.since(t.value))
    }

    /// Stops the timer if it has reached `limit`. Returns whether it had.
    pub(super) fn expire(&mut self, limit: Millis, now: Millis) -> bool {
        let expired = self.expiry(limit).is_some_and(|at| at <= now);
        if expired {
            self.stop();
        }
        expired
    }
}
