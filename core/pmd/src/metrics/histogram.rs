//! Histogram with 32 bins; the bin limits are those of Open vSwitch 3.7.
//!
//! The bin of a value is the number of limits below the value. The value's highest five bits index a table; the table
//! entry is the bin, or up to two bins below it. Two comparisons give the exact bin. So no branch depends on the value:
//! a PMD thread would mispredict such a branch about half of the time. For values that are mostly close to the previous
//! one, the previous bin is tried first ([`Histogram::add_alike`]), which costs even less.

use std::f64::consts::LN_2;
use std::ops::RangeInclusive;

/// Number of bins. The last one counts values beyond the last limit.
pub const BINS: usize = 32;
/// Number of bin limits.
const LIMITS: usize = BINS - 1;
/// Number of table entries: one for each value below 32, then sixteen for each power of two.
const TABLE_LEN: usize = 32 + 27 * 16;

/// A histogram; see the module documentation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    /// The limits, followed by two entries that no value exceeds, so that `bin` can always compare with two limits.
    bin_limits: [u32; BINS + 1],
    /// The count of each bin.
    bins: [u64; BINS],
    /// For each table entry, the bin of its smallest value.
    first: [u8; TABLE_LEN],
    /// The bin of the last value that [`Histogram::add_alike`] counted.
    last: usize,
}

/// The exponential function for numbers from 0 to 32. Its error is less than one unit in the last place, so that a limit
/// whose exact value is an integer is rounded down to the same integer as in Open vSwitch. [`f64::exp`] and [`f64::ln`]
/// would need the C library's libm, which costs 0.3 MB of memory and which the daemon uses for nothing else.
fn exp(x: f64) -> f64 {
    // ln 2 = HIGH + LOW. HIGH has so few significant bits that its multiples are exact.
    const HIGH: f64 = 0.693_146_705_627_441_4;
    const LOW: f64 = 4.749_325_039_031_672_6e-7;
    let doublings = (x / (HIGH + LOW)).round();
    let (high, low) = (x - doublings * HIGH, -doublings * LOW);
    let rest = high + low;
    let lost = low - (rest - high);
    // |rest| <= 0.35: a 17th term would be below 1e-21.
    let series = (2..=16).rev().fold(0.0, |sum, n| (1.0 + sum) * rest / f64::from(n));
    (1.0 + (rest + (rest * series + lost))) * (1u64 << doublings as u32) as f64
}

/// The natural logarithm: [`exp`] inverted by Halley's method, which triples the number of correct digits in each step.
fn ln(number: u32) -> f64 {
    let target = f64::from(number);
    (0..6).fold(f64::from(number.ilog2()) * LN_2, |x, _| {
        let found = exp(x);
        x + 2.0 * (target - found) / (target + found)
    })
}

impl Histogram {
    /// Creates a histogram with limits at equal distances.
    pub fn linear(least: u32, most: u32) -> Histogram {
        let limit = |i: usize| least + (i as u32 * (most - least)) / (BINS as u32 - 2);
        Histogram::new(std::array::from_fn(limit))
    }

    /// Creates a histogram whose limits have equal ratios, rounded down to ascending integers. If `least` is 0, the value
    /// 0 has a bin of its own.
    pub fn logarithmic(least: u32, most: u32) -> Histogram {
        let zero = usize::from(least == 0);
        let (low, high) = (ln(least.max(1)), ln(most));
        let steps = (BINS - 2 - zero) as f64;
        let mut bin_limits = [0; LIMITS];
        let mut next = zero as u32;
        for (i, limit) in bin_limits.iter_mut().skip(zero).enumerate() {
            *limit = next.max(exp(low + i as f64 * (high - low) / steps) as u32);
            next = *limit + 1;
        }
        bin_limits[LIMITS - 1] = bin_limits[LIMITS - 1].max(most);
        Histogram::new(bin_limits)
    }

    fn new(below: [u32; LIMITS]) -> Histogram {
        let mut bin_limits = [u32::MAX; BINS + 1];
        bin_limits[..LIMITS].copy_from_slice(&below);
        let bin = |amount: u32| below.partition_point(|limit| *limit < amount);
        let first = std::array::from_fn(|table_index| bin(least(table_index)) as u8);
        debug_assert!(
            (1..TABLE_LEN).all(|p| bin(least(p) - 1) - usize::from(first[p - 1]) <= 2),
            "limits are too close"
        );
        Histogram { bin_limits, bins: [0; BINS], first, last: 0 }
    }

    /// Counts a value `times` times.
    #[inline]
    pub fn add_times(&mut self, amount: u64, times: u64) {
        self.bins[self.bin(amount) % BINS] += times;
    }

    /// Counts values.
    #[inline]
    pub fn add_each(&mut self, amounts: impl Iterator<Item = u64>) {
        amounts.for_each(|amount| self.add_times(amount, 1));
    }

    /// Counts values that are mostly close to the previous value.
    #[inline]
    pub fn add_alike(&mut self, amounts: impl Iterator<Item = u64>) {
        let (mut within, mut times) = (self.range(self.last), 0);
        for amount in amounts {
            if !within.contains(&amount) {
                self.bins[self.last % BINS] += times;
                self.last = self.bin(amount);
                (within, times) = (self.range(self.last), 0);
            }
            times += 1;
        }
        self.bins[self.last % BINS] += times;
    }

    /// The range of values that a bin counts.
    #[inline]
    fn range(&self, bin: usize) -> RangeInclusive<u64> {
        let least = if bin == 0 { 0 } else { u64::from(self.bin_limits[bin - 1]) + 1 };
        least..=if bin < LIMITS { u64::from(self.bin_limits[bin]) } else { u64::MAX }
    }

    /// The bin of a value.
    #[inline]
    fn bin(&self, amount: u64) -> usize {
        let amount = u32::try_from(amount).unwrap_or(u32::MAX);
        let first = usize::from(self.first[table_index(amount)]) % BINS;
        first
            + usize::from(self.bin_limits[first] < amount)
            + usize::from(self.bin_limits[first + 1] < amount)
    }

    /// The largest value of each bin except the last.
    pub fn bin_limits(&self) -> &[u32] {
        &self.bin_limits[..LIMITS]
    }

    /// The count of each bin.
    pub fn bins(&self) -> &[u64; BINS] {
        &self.bins
    }
}

/// The index of a value's table entry.
#[inline]
fn table_index(amount: u32) -> usize {
    let shift = 27u32.saturating_sub(amount.leading_zeros());
    (16 * shift + (amount >> shift)) as usize
}

/// The smallest value that has this table index.
fn least(table_index: usize) -> u32 {
    let shift = (table_index / 16).saturating_sub(1);
    ((table_index - 16 * shift) << shift) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_at_equal_distances_or_ratios() {
        let linear = Histogram::linear(0, 32);
        assert_eq!((linear.bin_limits[1], linear.bin_limits[15], linear.bin_limits[30]), (1, 16, 32));
        let log = Histogram::logarithmic(0, 1000);
        assert_eq!(log.bin_limits[..6], [0, 1, 2, 3, 4, 5]);
        assert_eq!(log.bin_limits[30], 1000);
        assert!(log.bin_limits().is_sorted_by(|a, b| a < b));
        let cycles = Histogram::logarithmic(500, 24_000_000);
        assert_eq!(
            (cycles.bin_limits[0], cycles.bin_limits[1], cycles.bin_limits[30]),
            (499, 716, 24_000_000)
        );
    }

    #[test]
    fn limits_are_those_of_the_systems_functions() {
        for (least, most) in
            [(500_u32, 24_000_000), (0, 1000), (0, 512), (1000, 1_000_000), (1, 4_000_000_000)]
        {
            let bin_limits = Histogram::logarithmic(least, most).bin_limits;
            let zero = usize::from(least == 0);
            let (low, high) = (f64::from(least.max(1)).ln(), f64::from(most).ln());
            let mut before = None;
            for (i, limit) in bin_limits.iter().copied().enumerate().take(LIMITS).skip(zero) {
                let system = (low + (i - zero) as f64 * (high - low) / (30 - zero) as f64).exp() as u32;
                assert!(
                    limit == system || before == Some(limit - 1) && system < limit || i == 30,
                    "{least} to {most}, {i}"
                );
                before = Some(limit);
            }
        }
        for i in 0..=32_000 {
            let x = f64::from(i) / 1000.0;
            assert!((exp(x) / x.exp() - 1.0).abs() < 3e-16, "{x}");
            assert!((ln(i + 1) - f64::from(i + 1).ln()).abs() < 2e-15, "{i}");
        }
    }

    #[test]
    fn a_limit_belongs_to_its_bin() {
        let mut h = Histogram::linear(0, 30);
        h.add_each([0, 1, 30, 31, u64::MAX].into_iter());
        h.add_times(7, 4);
        assert_eq!((h.bins[0], h.bins[1], h.bins[7], h.bins[30], h.bins[31]), (1, 1, 4, 1, 2));
    }

    #[test]
    fn an_amount_belongs_below_the_first_limit_that_is_not_below_it() {
        for mut h in [
            Histogram::linear(100, 30_000),
            Histogram::logarithmic(500, 24_000_000),
            Histogram::logarithmic(0, 1000),
        ] {
            let edges = h.bin_limits().to_vec();
            let places = (0..TABLE_LEN).map(least);
            for amount in edges.iter().copied().chain(places).flat_map(|w| [w.saturating_sub(1), w, w + 1]) {
                let before = h.bins;
                let wide = u64::from(amount);
                h.add_alike([wide, wide, 0, wide].into_iter());
                h.add_times(wide, 3);
                let bin = edges.partition_point(|limit| *limit < amount);
                assert_eq!(h.bins[bin] - before[bin], 6 + u64::from(bin == 0), "{amount}");
            }
        }
    }
}
