//! Bytes that may pass by now: a token bucket in billionths of a byte, so that no nanosecond is rounded away.

use units::Nanos;

/// Tokens of a byte: at one byte per second, one flows in per nanosecond.
const BYTE: u128 = 1_000_000_000;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Tokens {
    /// Bytes per second.
    rate: u64,
    full: u128,
    left: u128,
    at: Nanos,
}

impl Tokens {
    /// A full bucket.
    pub(crate) fn new(rate: u64, burst: u64, now: Nanos) -> Tokens {
        let full = u128::from(burst) * BYTE;
        Tokens { rate, full, left: full, at: now }
    }

    /// Pours in what has flowed since the last call.
    pub(crate) fn refill(&mut self, now: Nanos) {
        let passed = now.0.saturating_sub(self.at.0);
        self.at.0 += passed;
        self.left = (self.left + u128::from(passed) * u128::from(self.rate)).min(self.full);
    }

    /// Takes so many bytes; `false`, and nothing taken, if there are not as many.
    pub(crate) fn take(&mut self, bytes: u64) -> bool {
        match self.left.checked_sub(u128::from(bytes) * BYTE) {
            Some(left) => {
                self.left = left;
                true
            }
            None => false,
        }
    }
}
