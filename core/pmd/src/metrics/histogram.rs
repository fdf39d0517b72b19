//! How often which amount was seen, in 32 bins with walls that Open vSwitch 3.7 uses too.
//!
//! Most amounts are like the one before, so its bin is tried first: it is cheaper than a search.

/// How many bins there are. The last one takes what is beyond the last wall.
pub const BINS: usize = 32;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    walls: [u32; BINS - 1],
    bins: [u64; BINS],
    /// The bin of the last amount.
    last: usize,
}

impl Histogram {
    /// Walls at equal distances.
    pub fn linear(least: u32, most: u32) -> Histogram {
        let wall = |i: usize| least + (i as u32 * (most - least)) / (BINS as u32 - 2);
        Histogram { walls: std::array::from_fn(wall), bins: [0; BINS], last: 0 }
    }

    /// Walls at equal ratios, rounded down, each above the one before. `least` may be 0, which then has a bin of its own.
    pub fn logarithmic(least: u32, most: u32) -> Histogram {
        let zero = usize::from(least == 0);
        let (low, high) = (f64::from(least.max(1)).ln(), f64::from(most).ln());
        let steps = (BINS - 2 - zero) as f64;
        let mut walls = [0; BINS - 1];
        let mut next = zero as u32;
        for (i, wall) in walls.iter_mut().skip(zero).enumerate() {
            *wall = next.max((low + i as f64 * (high - low) / steps).exp() as u32);
            next = *wall + 1;
        }
        walls[BINS - 2] = walls[BINS - 2].max(most);
        Histogram { walls, bins: [0; BINS], last: 0 }
    }

    /// Counts an amount.
    pub fn add(&mut self, amount: u64) {
        self.add_times(amount, 1);
    }

    /// Counts an amount that was seen so often.
    pub fn add_times(&mut self, amount: u64, times: u64) {
        if !self.is_in(self.last, amount) {
            self.last = self.walls.partition_point(|wall| u64::from(*wall) < amount);
        }
        self.bins[self.last] += times;
    }

    #[inline]
    fn is_in(&self, bin: usize, amount: u64) -> bool {
        let below = bin == 0 || u64::from(self.walls[bin - 1]) < amount;
        below && self.walls.get(bin).is_none_or(|wall| amount <= u64::from(*wall))
    }

    /// The largest amount of each bin but the last.
    pub fn walls(&self) -> &[u32; BINS - 1] {
        &self.walls
    }

    /// How often.
    pub fn bins(&self) -> &[u64; BINS] {
        &self.bins
    }
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
        assert!(log.walls.is_sorted_by(|a, b| a < b));
        let cycles = Histogram::logarithmic(500, 24_000_000);
        assert_eq!((cycles.walls[0], cycles.walls[1], cycles.walls[30]), (499, 716, 24_000_000));
    }

    #[test]
    fn a_wall_belongs_to_its_bin() {
        let mut h = Histogram::linear(0, 30);
        [0, 1, 30, 31, u64::MAX].into_iter().for_each(|n| h.add(n));
        h.add_times(7, 4);
        let mut again = h.clone();
        again.bins = [0; BINS];
        // Whatever the last bin was.
        for (last, amount) in (0..BINS).flat_map(|last| (0..40).map(move |amount| (last, amount))) {
            again.last = last;
            again.add(amount);
        }
        assert!(again.bins[..BINS - 1].iter().all(|n| *n == BINS as u64), "{again:?}");
        assert_eq!(again.bins[BINS - 1], 9 * BINS as u64);
        assert_eq!((h.bins[0], h.bins[1], h.bins[7], h.bins[30], h.bins[31]), (1, 1, 4, 1, 2));
    }
}
