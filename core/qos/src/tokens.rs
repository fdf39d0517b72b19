//! A token bucket. A token is a billionth of a byte, so that the tokens of one nanosecond are always a whole number.

use units::Nanos;

/// Tokens per byte: at one byte per second, one token is added per nanosecond.
const BYTE: u128 = 1_000_000_000;

/// A token bucket.
#[derive(Clone, Debug)]
pub(crate) struct Tokens {
    /// Bytes per second.
    rate: u64,
    /// Number of tokens of the full bucket.
    full: u128,
    /// Number of tokens that are left.
    left: u128,
    /// Time of the last refill.
    refilled_at: Nanos,
}

impl Tokens {
    /// Creates a full bucket. `rate`: bytes per second; `burst`: bytes.
    pub(crate) fn new(rate: u64, burst: u64, now: Nanos) -> Tokens {
        let full = u128::from(burst) * BYTE;
        Tokens { rate, full, left: full, refilled_at: now }
    }

    /// Adds the tokens for the time since the last call.
    pub(crate) fn refill(&mut self, now: Nanos) {
        let passed = now.0.saturating_sub(self.refilled_at.0);
        self.refilled_at.0 += passed;
        self.left = (self.left + u128::from(passed) * u128::from(self.rate)).min(self.full);
    }

    /// Removes the tokens for a number of bytes. If there are too few, none are removed and the result is `false`.
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
