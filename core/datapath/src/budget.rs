//! How much of its time a worker may spend on translating by itself while others do it for it.
//!
//! When no more can be parked, a worker translates inline rather than lose a packet; but a storm of misses must not take
//! the core from the packets that have their megaflow. So inline translations are paid from an allowance that grows
//! with the time that passes. Cycles are told.

/// One cycle in so many.
const SHARE: u64 = 8;
/// The most that is saved up: some milliseconds at today's rates.
const MOST: i64 = 1 << 23;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    cycles: i64,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget { cycles: MOST }
    }
}

impl Budget {
    /// So many cycles have passed.
    #[inline]
    pub fn earn(&mut self, cycles: u64) {
        let share = i64::try_from(cycles / SHARE).unwrap_or(MOST);
        self.cycles = self.cycles.saturating_add(share).min(MOST);
    }

    /// Something is left.
    pub fn is_left(&self) -> bool {
        self.cycles > 0
    }

    /// An inline translation took so long. What it took too much has to be earned before the next.
    pub fn spend(&mut self, cycles: u64) {
        self.cycles = self.cycles.saturating_sub(i64::try_from(cycles).unwrap_or(i64::MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_eighth_of_the_time_and_debts_are_paid() {
        let mut budget = Budget::default();
        budget.earn(u64::MAX);
        budget.spend(MOST as u64 + 100);
        assert!(!budget.is_left());
        budget.earn(800);
        assert!(!budget.is_left());
        budget.earn(8);
        assert!(budget.is_left());
        let (mut inline, mut all) = (0u64, 0u64);
        budget = Budget { cycles: 0 };
        for _ in 0..10_000 {
            let took = if budget.is_left() { 1000 } else { 0 };
            budget.spend(took);
            budget.earn(500 + took);
            (inline, all) = (inline + took, all + 500 + took);
        }
        assert!((7.5..8.5).contains(&(all as f64 / inline as f64)));
    }
}
