//! How often which amount was seen, in 32 bins with walls that Open vSwitch 3.7 uses too.

/// How many bins there are. The last one takes what is beyond the last wall.
pub const BINS: usize = 32;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    walls: [u32; BINS - 1],
    bins: [u64; BINS],
}

impl Histogram {
    /// Walls at equal distances.
    pub fn linear(least: u32, most: u32) -> Histogram {
        let wall = |i: usize| least + (i as u32 * (most - least)) / (BINS as u32 - 2);
        Histogram { walls: std::array::from_fn(wall), bins: [0; BINS] }
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
        Histogram { walls, bins: [0; BINS] }
    }

    /// Counts an amount.
    pub fn add(&mut self, amount: u64) {
        self.add_times(amount, 1);
    }

    /// Counts an amount that was seen so often.
    pub fn add_times(&mut self, amount: u64, times: u64) {
        let bin = self.walls.partition_point(|wall| u64::from(*wall) < amount);
        self.bins[bin] += times;
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
        assert_eq!((h.bins[0], h.bins[1], h.bins[7], h.bins[30], h.bins[31]), (1, 1, 4, 1, 2));
    }
}
