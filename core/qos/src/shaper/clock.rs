//! A token bucket as one number: the time from which on it has tokens.
//!
//! The bucket has tokens if that time is in the past; the farther it is in the past, the fuller the bucket.
//! Sending advances it by the time that the bytes take at the rate. Equivalent to the virtual scheduling
//! algorithm of ITU-T I.371.

use units::Nanos;

/// A time in units of 2^-20 ns, so that a byte at 100 Gbit/s (0.08 ns) is rounded by less than a millionth.
pub(super) type FineTime = u128;

const SHIFT: u32 = 20;

pub(super) fn fine(at: Nanos) -> FineTime {
    FineTime::from(at.0) << SHIFT
}

/// The first whole nanosecond that is not before a time.
pub(super) fn nanos(at: FineTime) -> Nanos {
    let up = at + ((1 << SHIFT) - 1);
    Nanos(u64::try_from(up >> SHIFT).unwrap_or(u64::MAX))
}

/// A token bucket as one number.
#[derive(Clone, Debug)]
pub(super) struct RateClock {
    /// Time per byte.
    per_byte: FineTime,
    /// Time of the burst.
    depth: FineTime,
    /// The bucket has tokens from this time on.
    pub(super) at: FineTime,
}

impl RateClock {
    /// Makes a full bucket. `rate`: bytes per second; `burst`: bytes.
    pub(super) fn new(rate: u64, burst: u64, now: FineTime) -> RateClock {
        let per_byte = (1_000_000_000 << SHIFT) / FineTime::from(rate.max(1));
        let depth = per_byte * FineTime::from(burst);
        RateClock { per_byte, depth, at: now.saturating_sub(depth) }
    }

    /// Converts it to another rate: keeps the debt in bytes, or the tokens that fit.
    pub(super) fn changed(&self, rate: u64, burst: u64, now: FineTime) -> RateClock {
        let mut new = RateClock::new(rate, burst, now);
        if self.at > now {
            // Owed bytes take the time that they take at the new rate.
            new.at = now + (self.at - now) / self.per_byte.max(1) * new.per_byte;
        }
        new
    }

    /// Returns whether it has tokens.
    pub(super) fn is_ready(&self, now: FineTime) -> bool {
        self.at <= now
    }

    /// Takes the tokens of bytes that are sent.
    pub(super) fn charge(&mut self, bytes: u32, now: FineTime) {
        let full = now.saturating_sub(self.depth);
        self.at = self.at.max(full) + self.per_byte * FineTime::from(bytes);
    }
}
