//! How much of its time a worker may spend on translating by itself while others do it for it.
//!
//! When no more can be parked, a worker translates inline rather than lose a packet; but a storm of misses must not take
//! the core from the packets that have their megaflow. So inline translations are paid from an allowance that grows
//! with the time that passes: by an eighth of it, or by the misses' share of the packets where that is more. A core that
//! has nothing but misses gives them all its time. In one turn it does not grow by more than a ring can wait for, since other
//! queues wait meanwhile. Cycles are told.

/// One cycle in so many, at least.
const SHARE: u64 = 8;
/// The most that is saved up: some milliseconds at today's rates.
const MOST: i64 = 1 << 23;
/// What the misses' share is worth in one turn, at most: some 20 µs.
const IN_A_TURN: u64 = 1 << 16;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    cycles: i64,
    /// Since the last allowance.
    misses: u64,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget { cycles: MOST, misses: 0 }
    }
}

impl Budget {
    /// So many packets had no megaflow.
    #[inline]
    pub fn missed(&mut self, packets: u64) {
        self.misses += packets;
    }

    /// A turn that took so many cycles has ended, which brought so many packets.
    #[inline]
    pub fn earn(&mut self, cycles: u64, packets: u64) {
        let mut share = cycles / SHARE;
        let misses = std::mem::take(&mut self.misses).min(packets);
        if misses != 0 {
            share = share.max(cycles.min(IN_A_TURN) * misses / packets);
        }
        let share = i64::try_from(share).unwrap_or(MOST);
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
    fn debts_are_paid() {
        let mut budget = Budget::default();
        budget.earn(u64::MAX, 0);
        budget.spend(MOST as u64 + 100);
        assert!(!budget.is_left());
        budget.earn(800, 0);
        assert!(!budget.is_left());
        budget.earn(8, 0);
        assert!(budget.is_left());
    }

    /// The share of its time that goes into inline translations of 1000 cycles, where a turn's other work takes 500 and `misses`
    /// of its 100 packets have no megaflow.
    fn inline_share(misses: u64) -> f64 {
        let mut budget = Budget { cycles: 0, misses: 0 };
        let (mut inline, mut all) = (0, 0);
        for _ in 0..10_000 {
            let took = if budget.is_left() { 1000 } else { 0 };
            budget.spend(took);
            budget.missed(misses);
            budget.earn(500 + took, 100);
            (inline, all) = (inline + took, all + 500 + took);
        }
        inline as f64 / all as f64
    }

    #[test]
    fn misses_get_their_share_and_an_eighth_at_least() {
        for (misses, share) in [(0, 0.125), (1, 0.125), (50, 0.5), (60, 0.6)] {
            let got = inline_share(misses);
            assert!((got - share).abs() < 0.01, "{misses} of 100: {got}");
        }
        // Each turn has one.
        assert!(inline_share(100) > 0.66);
    }

    #[test]
    fn one_turn_is_not_worth_more_than_others_can_wait() {
        let mut budget = Budget { cycles: 0, misses: 100 };
        budget.earn(IN_A_TURN * 4, 100);
        assert_eq!(budget.cycles, IN_A_TURN as i64);
    }
}
