//! Ingress policing: limits the kilobits and the packets per second that a port receives
//! (`ingress_policing_*`).
//!
//! A policer is a single-rate meter with one burst (RFC 2697 without excess burst), and drops the packets that exceed
//! the rate. As in Open vSwitch the Ethernet header is not counted, so the rate is that of IP packets. All rx queues of
//! a port share one policer. A batch that passes completely takes its tokens by one atomic exchange per bucket.

use crate::token_bucket::{BYTE, Bucket, PACKET, RefillClock};
use units::Micros;

/// Bytes of each frame that are not counted: the Ethernet header.
const ETHERNET: u64 = 14;

/// The rates of a policer. A rate of 0 does not limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PolicerSpec {
    /// Kilobits per second.
    pub kbits: u64,
    /// Burst in kilobits.
    pub kbits_burst: u64,
    /// Packets per second.
    pub packets: u64,
    /// Burst in packets.
    pub packets_burst: u64,
}

/// The ingress policer of a port.
#[derive(Debug)]
pub(crate) struct Policer {
    pub(crate) spec: PolicerSpec,
    clock: RefillClock,
    bits: Option<Bucket>,
    packets: Option<Bucket>,
}

impl Policer {
    /// Makes a policer with full buckets; `None` if the specification limits nothing.
    pub(crate) fn new(spec: PolicerSpec, now: Micros) -> Option<Policer> {
        let bucket = |rate, burst| (rate != 0).then(|| Bucket::new(rate, burst));
        let (bits, packets) =
            (bucket(spec.kbits, spec.kbits_burst), bucket(spec.packets, spec.packets_burst));
        let limits = bits.is_some() || packets.is_some();
        limits.then(|| Policer { spec, clock: RefillClock::new(now), bits, packets })
    }

    /// Takes the tokens for this many packets and bytes. Returns `false` and takes none if they may not all pass.
    pub(crate) fn pass(&self, packets: u64, bytes: u64, now: Micros) -> bool {
        if let Some(passed) = self.clock.advance(now) {
            self.bits.iter().chain(&self.packets).for_each(|bucket| bucket.add_tokens(passed));
        }
        let cost = bytes.saturating_sub(packets * ETHERNET) * BYTE;
        if self.bits.as_ref().is_some_and(|bits| !bits.take(cost)) {
            return false;
        }
        if self.packets.as_ref().is_some_and(|bucket| !bucket.take(packets * PACKET)) {
            self.bits.iter().for_each(|bits| bits.return_tokens(cost));
            return false;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number of packets that pass in ten seconds, if packets arrive in batches of 32 at twice to some
    /// hundred times the rate.
    fn passed(spec: PolicerSpec, len: u64) -> u64 {
        let policer = Policer::new(spec, Micros(0)).unwrap();
        let mut passed = 0;
        for turn in 0..20_000 {
            let now = Micros(turn * 500);
            if policer.pass(32, 32 * len, now) {
                passed += 32;
                continue;
            }
            passed += (0..32).filter(|_| policer.pass(1, len, now)).count() as u64;
        }
        passed
    }

    #[test]
    fn a_rate_in_bits_holds_for_every_size_of_packet() {
        for len in [60, 64, 570, 1514, 9014, 65_535] {
            let spec = PolicerSpec { kbits: 100_000, kbits_burst: 1000, ..PolicerSpec::default() };
            let expected = (10.0 * 100e6 + 1e6) / (8.0 * (len - 14) as f64);
            let most = (20_000 * 32) as f64;
            let (got, expected) = (passed(spec, len) as f64, expected.min(most));
            assert!((got - expected).abs() / expected < 0.02, "{len}: {got} packets, {expected} expected");
        }
    }

    #[test]
    fn a_rate_in_packets_holds_for_every_size_of_packet() {
        for len in [60, 1514] {
            let spec = PolicerSpec { packets: 5000, packets_burst: 1000, ..PolicerSpec::default() };
            let got = passed(spec, len);
            assert!((50_900..=51_100).contains(&got), "{got}");
        }
    }

    #[test]
    fn both_rates_hold_and_what_one_refuses_costs_the_other_nothing() {
        let spec = PolicerSpec { kbits: 8, kbits_burst: 8, packets: 1, packets_burst: 3 };
        let policer = Policer::new(spec, Micros(0)).unwrap();
        assert!((0..3).all(|_| policer.pass(1, 64, Micros(0))));
        assert!((0..100).all(|_| !policer.pass(1, 64, Micros(0))));
        // 8 kilobits are 1000 bytes, of which 150 were taken; one packet per second is added.
        assert!(!policer.pass(1, 14 + 1001, Micros(1_000_000)));
        assert!(policer.pass(1, 14 + 1000, Micros(1_000_000)));
    }

    #[test]
    fn without_a_rate_there_is_no_policer() {
        assert!(Policer::new(PolicerSpec { kbits_burst: 10, ..PolicerSpec::default() }, Micros(0)).is_none());
    }
}
