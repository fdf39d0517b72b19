//! Histogram with 32 bins; the bin limits ("walls") are those of Open vSwitch 3.7.
//!
//! The bin of a value is the number of walls below it. The highest five bits of the value index a table that gives
//! the bin, off by two walls at most. So no branch depends on the value; a PMD thread would mispredict such a branch
//! about half of the time. For values that are mostly close to the previous one, the previous bin is tried first
//! ([`Histogram::add_alike`]), which costs even less.

use std::f64::consts::LN_2;
use std::ops::RangeInclusive;

/// Number of bins. The last one counts values beyond the last wall.
pub const BINS: usize = 32;
const WALLS: usize = BINS - 1;
/// Table entries: one for each value below 32, then sixteen for each power of two.
const PLACES: usize = 32 + 27 * 16;

/// A histogram; see the module documentation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    /// The last two entries are not walls but larger than any value.
    walls: [u32; BINS + 1],
    bins: [u64; BINS],
    /// For each table entry, the bin of its smallest value.
    first: [u8; PLACES],
    /// The bin of the last value that [`Histogram::add_alike`] counted.
    last: usize,
}

/// The exponential function for numbers from 0 to 32. Its error is less than one bit of the last place, so that walls that
/// should be whole numbers fall on the side where Open vSwitch has them. [`f64::exp`] and [`f64::ln`] are functions of the
/// system's library of mathematics, which takes 0.3 MB of memory, and the daemon needs nothing else of it.
fn exp(x: f64) -> f64 {
    // ln 2 as a sum: the first part has so few digits that its multiples are exact.
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

/// The natural logarithm of a number: [`exp`] inverted by Halley's method, which triples the right digits in a step.
fn ln(number: u32) -> f64 {
    let wanted = f64::from(number);
    (0..6).fold(f64::from(number.ilog2()) * LN_2, |x, _| {
        let found = exp(x);
        x + 2.0 * (wanted - found) / (wanted + found)
    })
}

impl Histogram {
    /// Creates a histogram with walls at equal distances.
    pub fn linear(least: u32, most: u32) -> Histogram {
        let wall = |i: usize| least + (i as u32 * (most - least)) / (BINS as u32 - 2);
        Histogram::new(std::array::from_fn(wall))
    }

    /// Creates a histogram with walls at equal ratios, rounded down, each above the one before. `least` may be 0,
    /// which then has a bin of its own.
    pub fn logarithmic(least: u32, most: u32) -> Histogram {
        let zero = usize::from(least == 0);
        let (low, high) = (ln(least.max(1)), ln(most));
        let steps = (BINS - 2 - zero) as f64;
        let mut walls = [0; WALLS];
        let mut next = zero as u32;
        for (i, wall) in walls.iter_mut().skip(zero).enumerate() {
            *wall = next.max(exp(low + i as f64 * (high - low) / steps) as u32);
            next = *wall + 1;
        }
        walls[WALLS - 1] = walls[WALLS - 1].max(most);
        Histogram::new(walls)
    }

    fn new(below: [u32; WALLS]) -> Histogram {
        let mut walls = [u32::MAX; BINS + 1];
        walls[..WALLS].copy_from_slice(&below);
        let bin = |amount: u32| below.partition_point(|wall| *wall < amount);
        let first = std::array::from_fn(|place| bin(least(place)) as u8);
        debug_assert!(
            (1..PLACES).all(|p| bin(least(p) - 1) - usize::from(first[p - 1]) <= 2),
            "walls are too close"
        );
        Histogram { walls, bins: [0; BINS], first, last: 0 }
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

    /// Counts values that are mostly close to the previous one.
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

    /// The values of a bin.
    #[inline]
    fn range(&self, bin: usize) -> RangeInclusive<u64> {
        let least = if bin == 0 { 0 } else { u64::from(self.walls[bin - 1]) + 1 };
        least..=if bin < WALLS { u64::from(self.walls[bin]) } else { u64::MAX }
    }

    #[inline]
    fn bin(&self, amount: u64) -> usize {
        let amount = u32::try_from(amount).unwrap_or(u32::MAX);
        let first = usize::from(self.first[place(amount)]) % BINS;
        first + usize::from(self.walls[first] < amount) + usize::from(self.walls[first + 1] < amount)
    }

    /// The largest value of each bin but the last.
    pub fn walls(&self) -> &[u32] {
        &self.walls[..WALLS]
    }

    /// The count of each bin.
    pub fn bins(&self) -> &[u64; BINS] {
        &self.bins
    }
}

/// The table entry of a value.
#[inline]
fn place(amount: u32) -> usize {
    let shift = 27u32.saturating_sub(amount.leading_zeros());
    (16 * shift + (amount >> shift)) as usize
}

/// The smallest value of a table entry.
fn least(place: usize) -> u32 {
    let shift = (place / 16).saturating_sub(1);
    ((place - 16 * shift) << shift) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn walls_are_at_equal_distances_or_ratios() {
        let linear = Histogram::linear(0, 32);
        assert_eq!((linear.walls[1], linear.walls[15], linear.walls[30]), (1, 16, 32));
        let log = Histogram::logarithmic(0, 1000);
        assert_eq!(log.walls[..6], [0, 1, 2, 3, 4, 5]);
        assert_eq!(log.walls[30], 1000);
        assert!(log.walls().is_sorted_by(|a, b| a < b));
        let cycles = Histogram::logarithmic(500, 24_000_000);
        assert_eq!((cycles.walls[0], cycles.walls[1], cycles.walls[30]), (499, 716, 24_000_000));
    }

    #[test]
    fn walls_are_those_of_the_systems_functions() {
        for (least, most) in
            [(500_u32, 24_000_000), (0, 1000), (0, 512), (1000, 1_000_000), (1, 4_000_000_000)]
        {
            let walls = Histogram::logarithmic(least, most).walls;
            let zero = usize::from(least == 0);
            let (low, high) = (f64::from(least.max(1)).ln(), f64::from(most).ln());
            let mut before = None;
            for (i, wall) in walls.iter().copied().enumerate().take(WALLS).skip(zero) {
                let system = (low + (i - zero) as f64 * (high - low) / (30 - zero) as f64).exp() as u32;
                assert!(
                    wall == system || before == Some(wall - 1) && system < wall || i == 30,
                    "{least} to {most}, {i}"
                );
                before = Some(wall);
            }
        }
        for i in 0..=32_000 {
            let x = f64::from(i) / 1000.0;
            assert!((exp(x) / x.exp() - 1.0).abs() < 3e-16, "{x}");
            assert!((ln(i + 1) - f64::from(i + 1).ln()).abs() < 2e-15, "{i}");
        }
    }

    #[test]
    fn a_wall_belongs_to_its_bin() {
        let mut h = Histogram::linear(0, 30);
        h.add_each([0, 1, 30, 31, u64::MAX].into_iter());
        h.add_times(7, 4);
        assert_eq!((h.bins[0], h.bins[1], h.bins[7], h.bins[30], h.bins[31]), (1, 1, 4, 1, 2));
    }

    #[test]
    fn an_amount_belongs_below_the_first_wall_that_is_not_below_it() {
        for mut h in [
            Histogram::linear(100, 30_000),
            Histogram::logarithmic(500, 24_000_000),
            Histogram::logarithmic(0, 1000),
        ] {
            let edges = h.walls().to_vec();
            let places = (0..PLACES).map(least);
            for amount in edges.iter().copied().chain(places).flat_map(|w| [w.saturating_sub(1), w, w + 1]) {
                let before = h.bins;
                let wide = u64::from(amount);
                h.add_alike([wide, wide, 0, wide].into_iter());
                h.add_times(wide, 3);
                let bin = edges.partition_point(|wall| *wall < amount);
                assert_eq!(h.bins[bin] - before[bin], 6 + u64::from(bin == 0), "{amount}");
            }
        }
    }
}
