//! Residence time: the longest time that packets may have spent in the switch, as a histogram for each rx queue.
//!
//! The packets of a burst arrived after the previous poll of their queue, unless that poll left packets behind. So
//! the time from the previous poll until the burst has been sent is an upper bound of the time that a packet of the
//! burst has spent in the switch. Both times are read anyway, so a burst costs a multiplication and two additions,
//! and a packet costs nothing.
//!
//! Not included: the time in the queue before the previous poll, if polls find full bursts (the counter of full
//! bursts shows that); and the time that packets wait to be sent together (`tx-flush-interval`), for the answer to an
//! upcall, or in a shaper.

use std::sync::atomic::{AtomicU64, Ordering};
use units::Cycles;

/// Number of buckets. Bucket `k` counts packets with a residence time below 2^k µs, the last bucket all others.
pub const BUCKETS: usize = 17;

/// Microseconds per cycle, in units of 2^-32; 0: the length of a cycle is not known.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Scale(u64);

impl Scale {
    /// Returns the scale of a counter that advances by `cycles_per_ms` in a millisecond; 0: not known. Counters
    /// slower than 1 MHz are treated as counters of 1 MHz.
    pub(crate) fn new(cycles_per_ms: u64) -> Scale {
        Scale(if cycles_per_ms == 0 { 0 } else { (1000 << 32) / cycles_per_ms.max(1000) })
    }

    /// Returns the bucket of this time. The product needs more than 64 bits, because the scale has up to 33 bits.
    #[inline]
    fn bucket(self, time: Cycles) -> usize {
        let micros = (u128::from(time.0) * u128::from(self.0)) >> 32;
        ((u64::BITS - (micros as u64).leading_zeros()) as usize).min(BUCKETS - 1)
    }
}

/// Adds to a counter that only one thread writes, so that no atomic read-modify-write is needed.
#[inline]
pub(crate) fn add(sum: &AtomicU64, n: u64) {
    sum.store(sum.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
}

/// The histogram of one queue. Written by the worker that polls the queue, read by all threads.
#[derive(Debug, Default)]
pub(crate) struct ResidenceTimes {
    packets: [AtomicU64; BUCKETS],
    /// The sum of the residence times of all packets, in cycles.
    sum: AtomicU64,
}

/// A copy of a histogram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// Packets by bucket.
    pub packets: [u64; BUCKETS],
    /// The sum of the residence times of all packets, in cycles.
    pub sum: u64,
}

impl ResidenceTimes {
    /// Counts packets with this residence time.
    #[inline]
    pub(crate) fn add(&self, packets: u64, time: Cycles, scale: Scale) {
        let bucket = &self.packets[scale.bucket(time)];
        add(bucket, packets);
        add(&self.sum, packets.wrapping_mul(time.0));
    }

    pub(crate) fn load(&self) -> Histogram {
        Histogram {
            packets: std::array::from_fn(|i| self.packets[i].load(Ordering::Relaxed)),
            sum: self.sum.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_powers_of_two() {
        let scale = Scale::new(2_500_000);
        let bucket = |ns: u64| scale.bucket(Cycles(ns * 5 / 2));
        let found = [0, 999, 1001, 1999, 2001, 3999, 32_700_000, 32_800_000, u64::MAX / 8].map(bucket);
        assert_eq!(found, [0, 0, 1, 1, 2, 2, 15, 16, 16]);
        assert_eq!(scale.bucket(Cycles(u64::MAX)), BUCKETS - 1);
        // Virtual time has no cycles.
        assert_eq!(Scale::default().bucket(Cycles(u64::MAX)), 0);
        let times = ResidenceTimes::default();
        times.add(64, Cycles(5010), scale);
        times.add(1, Cycles(100), scale);
        let Histogram { packets, sum } = times.load();
        assert_eq!((packets[0], packets[2], packets.iter().sum(), sum), (1, 64, 65u64, 64 * 5010 + 100));
    }
}
