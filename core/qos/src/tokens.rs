//! A token bucket of bytes. Tokens are billionths of a byte, so that no nanosecond is lost to rounding.

use units::Nanos;

/// Tokens per byte: at one byte per second, one token is added per nanosecond.
const BYTE: u128 = 1_000_000_000;

/// A token bucket of bytes.
#[derive(Clone, Debug)]
pub(crate) struct Tokens {
    /// Bytes per second.
    rate: u64,
    full: u128,
    left: u128,
    at: Nanos,
}

impl Tokens {
    /// Makes a full bucket.
    pub(crate) fn new(rate: u64, burst: u64, now: Nanos) -> Tokens {
        let full = u128::from(burst) * BYTE;
        Tokens { rate, full, left: full, at: now }
    }

    /// Adds the tokens since the last call.
    pub(crate) fn refill(&mut self, now: Nanos) {
        let passed = now.0.saturating_sub(self.at.0);
        self.at.0 += passed;
        self.left = (self.left + u128::from(passed) * u128::from(self.rate)).min(self.full);
    }

    /// Takes the tokens of bytes. Returns `false` and takes none if there are too few.
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
