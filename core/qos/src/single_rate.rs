//! `egress-policer`: one rate and one burst (RFC 2697 with no excess burst). A packet that exceeds the burst is
//! dropped.

use crate::counts_and_errors::InvalidRates;
use crate::tokens::Tokens;
use units::Nanos;

/// Rate and burst.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SingleRateSpec {
    /// Committed bytes per second (`cir`).
    pub cir: u64,
    /// Burst in bytes (`cbs`).
    pub cbs: u64,
}

/// A policer with one rate.
#[derive(Clone, Debug)]
pub struct SingleRate(Tokens);

impl SingleRate {
    /// Creates a policer with a full bucket. Neither rate nor burst may be 0.
    pub fn new(spec: SingleRateSpec, now: Nanos) -> Result<SingleRate, InvalidRates> {
        match spec {
            SingleRateSpec { cir: 1.., cbs: 1.. } => Ok(SingleRate(Tokens::new(spec.cir, spec.cbs, now))),
            _ => Err(InvalidRates),
        }
    }

    /// Returns whether a packet of this many bytes passes.
    pub fn pass(&mut self, bytes: u64, now: Nanos) -> bool {
        self.0.refill(now);
        self.0.take(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_holds_for_every_size_of_packet() {
        for len in [46, 570, 1500, 65_000] {
            let mut policer =
                SingleRate::new(SingleRateSpec { cir: 1_250_000, cbs: 65_000 }, Nanos(0)).unwrap();
            let passed = (0..5_000_000u64).filter(|i| policer.pass(len, Nanos(i * 2000))).count() as f64;
            let expected = (12_500_000.0 + 65_000.0) / len as f64;
            assert!((passed - expected).abs() / expected < 0.02, "{len}: {passed} of {expected}");
        }
    }

    #[test]
    fn what_cannot_pass_anything_is_refused() {
        for (cir, cbs) in [(0, 0), (0, 1), (1, 0)] {
            assert_eq!(SingleRate::new(SingleRateSpec { cir, cbs }, Nanos(0)).err(), Some(InvalidRates));
        }
    }
}
