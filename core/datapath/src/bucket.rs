//! A token bucket that any thread takes from and none waits for.
//!
//! Tokens are millionths of a packet, or thousandths of a bit: so many of them flow in per microsecond as the rate is packets, or
//! kilobits, per second. Nothing is rounded, whatever the sizes of packets.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use units::Micros;

/// Tokens of a packet.
pub(crate) const PACKET: u64 = 1_000_000;
/// Tokens of a byte.
pub(crate) const BYTE: u64 = 8_000;
/// Tokens of one unit of a burst: a packet, or a kilobit.
pub(crate) const BURST: u64 = 1_000_000;

/// See the module.
#[derive(Debug)]
pub(crate) struct Bucket {
    /// Tokens that flow in per microsecond.
    rate: u64,
    /// Tokens that it holds at most.
    full: u64,
    tokens: AtomicU64,
}

impl Bucket {
    /// A full bucket. `rate`: packets or kilobits per second; `burst`: packets or kilobits.
    pub(crate) fn new(rate: u64, burst: u64) -> Bucket {
        let full = burst.saturating_mul(BURST);
        Bucket { rate, full, tokens: AtomicU64::new(full) }
    }

    /// Pours in what flowed in this time.
    pub(crate) fn pour(&self, passed: Micros) {
        // More than fills it is not worth multiplying.
        let enough = self.full / self.rate.max(1) + 1;
        let more = passed.0.min(enough).saturating_mul(self.rate);
        let _ = self.tokens.fetch_update(Relaxed, Relaxed, |t| Some(t.saturating_add(more).min(self.full)));
    }

    /// Takes tokens; `false`, and nothing taken, if there are not as many.
    pub(crate) fn take(&self, cost: u64) -> bool {
        self.tokens.fetch_update(Relaxed, Relaxed, |t| t.checked_sub(cost)).is_ok()
    }

    /// Gives back what was taken.
    pub(crate) fn give(&self, cost: u64) {
        let _ = self.tokens.fetch_update(Relaxed, Relaxed, |t| Some(t.saturating_add(cost).min(self.full)));
    }
}

/// When tokens were last poured in. The thread that moves it forward pours in what has flowed since.
#[derive(Debug)]
pub(crate) struct PouringClock(AtomicU64);

impl PouringClock {
    pub(crate) fn new(now: Micros) -> PouringClock {
        PouringClock(AtomicU64::new(now.0))
    }

    /// Moves the clock to `now`; the time that passed, for the one caller that moved it.
    pub(crate) fn advance(&self, now: Micros) -> Option<Micros> {
        if self.0.load(Relaxed) >= now.0 {
            return None;
        }
        let before = self.0.fetch_max(now.0, Relaxed);
        (before < now.0).then(|| Micros(now.0 - before))
    }
}
