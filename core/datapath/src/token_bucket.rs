//! A token bucket from which several threads take tokens without a lock.
//!
//! A token is a millionth of a packet or a thousandth of a bit. So the number of tokens added per microsecond equals
//! the rate in packets per second or kilobits per second, and nothing is rounded, whatever the packet sizes are.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use units::Micros;

/// Tokens per packet.
pub(crate) const PACKET: u64 = 1_000_000;
/// Tokens per byte.
pub(crate) const BYTE: u64 = 8_000;
/// Tokens per unit of burst, which is a packet or a kilobit.
pub(crate) const BURST: u64 = 1_000_000;

/// A token bucket.
#[derive(Debug)]
pub(crate) struct Bucket {
    /// Tokens added per microsecond.
    rate: u64,
    /// Capacity in tokens.
    full: u64,
    tokens: AtomicU64,
}

impl Bucket {
    /// Returns a full bucket. `rate`: packets or kilobits per second; `burst`: packets or kilobits.
    pub(crate) fn new(rate: u64, burst: u64) -> Bucket {
        let full = burst.saturating_mul(BURST);
        Bucket { rate, full, tokens: AtomicU64::new(full) }
    }

    /// Adds the tokens for this time.
    pub(crate) fn add_tokens(&self, passed: Micros) {
        // The product could overflow. A longer time than this fills the bucket anyway.
        let enough = self.full / self.rate.max(1) + 1;
        let more = passed.0.min(enough).saturating_mul(self.rate);
        let _ = self.tokens.fetch_update(Relaxed, Relaxed, |t| Some(t.saturating_add(more).min(self.full)));
    }

    /// Takes tokens. Returns `false` and takes none if there are too few.
    pub(crate) fn take(&self, cost: u64) -> bool {
        self.tokens.fetch_update(Relaxed, Relaxed, |t| t.checked_sub(cost)).is_ok()
    }

    /// Takes these tokens, or fewer if there are not enough; returns how many it took.
    pub(crate) fn take_some(&self, wanted: u64) -> u64 {
        let take = |tokens: u64| Some(tokens - tokens.min(wanted));
        let (Ok(before) | Err(before)) = self.tokens.fetch_update(Relaxed, Relaxed, take);
        before.min(wanted)
    }

    /// Returns tokens that were taken and not used.
    pub(crate) fn return_tokens(&self, cost: u64) {
        let _ = self.tokens.fetch_update(Relaxed, Relaxed, |t| Some(t.saturating_add(cost).min(self.full)));
    }
}

/// The time at which tokens were last added. The thread that advances this time adds the tokens since then.
#[derive(Debug)]
pub(crate) struct RefillClock(AtomicU64);

impl RefillClock {
    pub(crate) fn new(now: Micros) -> RefillClock {
        RefillClock(AtomicU64::new(now.0))
    }

    /// Advances the clock to `now`. Returns the time that passed to the thread that has advanced it, and `None` to
    /// all others.
    pub(crate) fn advance(&self, now: Micros) -> Option<Micros> {
        if self.0.load(Relaxed) >= now.0 {
            return None;
        }
        let before = self.0.fetch_max(now.0, Relaxed);
        (before < now.0).then(|| Micros(now.0 - before))
    }
}
