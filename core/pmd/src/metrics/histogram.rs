//! How often which amount was seen, in 32 bins with walls that Open vSwitch 3.7 uses too.
//!
//! An amount's bin is the number of walls below it. Its highest five bits lead to a place of a table, which says the bin but
//! for two walls at most: no branch hangs on the amount, which a poll thread would foretell wrongly as often as not. Amounts
//! that mostly are near the one before have its bin tried first ([`Histogram::add_alike`]), which is cheaper still.

use std::ops::RangeInclusive;

/// How many bins there are. The last one takes what is beyond the last wall.
pub const BINS: usize = 32;
const WALLS: usize = BINS - 1;
/// Places of the table: amounts below 32 one by one, then sixteen for each power of two.
const PLACES: usize = 32 + 27 * 16;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    /// The last two are no walls: nothing is above them.
    walls: [u32; BINS + 1],
    bins: [u64; BINS],
    /// By place, the bin of its least amount.
    first: [u8; PLACES],
    /// The bin of the last amount of those that are alike.
    last: usize,
}

impl Histogram {
    /// Walls at equal distances.
    pub fn linear(least: u32, most: u32) -> Histogram {
        let wall = |i: usize| least + (i as u32 * (most - least)) / (BINS as u32 - 2);
        Histogram::new(std::array::from_fn(wall))
    }

    /// Walls at equal ratios, rounded down, each above the one before. `least` may be 0, which then has a bin of its own.
    pub fn logarithmic(least: u32, most: u32) -> Histogram {
        let zero = usize::from(least == 0);
        let (low, high) = (f64::from(least.max(1)).ln(), f64::from(most).ln());
        let steps = (BINS - 2 - zero) as f64;
        let mut walls = [0; WALLS];
        let mut next = zero as u32;
        for (i, wall) in walls.iter_mut().skip(zero).enumerate() {
            *wall = next.max((low + i as f64 * (high - low) / steps).exp() as u32);
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

    /// Counts an amount that was seen so often.
    #[inline]
    pub fn add_times(&mut self, amount: u64, times: u64) {
        self.bins[self.bin(amount) % BINS] += times;
    }

    /// Counts amounts.
    #[inline]
    pub fn add_each(&mut self, amounts: impl Iterator<Item = u64>) {
        amounts.for_each(|amount| self.add_times(amount, 1));
    }

    /// Counts amounts, most of which are near the one before.
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

    /// The amounts of a bin.
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

    /// The largest amount of each bin but the last.
    pub fn walls(&self) -> &[u32] {
        &self.walls[..WALLS]
    }

    /// How often.
    pub fn bins(&self) -> &[u64; BINS] {
        &self.bins
    }
}

/// Where the table has an amount.
#[inline]
fn place(amount: u32) -> usize {
    let shift = 27u32.saturating_sub(amount.leading_zeros());
    (16 * shift + (amount >> shift)) as usize
}

/// The least amount of a place.
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
