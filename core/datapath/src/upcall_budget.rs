//! The upcall budget: how much of its time a worker may spend on translating misses inline while handler threads serve upcalls.
//!
//! When no more misses can be parked, a worker translates inline rather than lose a packet. A storm of misses must
//! not take the core from packets that have a megaflow. So inline translation is paid from a budget of cycles (ADR
//! 10):
//!
//! - It grows by 1/16 of the time that passes, or by the share of misses among the packets if that is larger.
//! - In this share, a packet with a megaflow weighs more if its queue has few misses ([`MissShare`]): a storm first slows
//!   down its own port, and a core with little other traffic has time for the misses.
//! - The share is computed over the last iterations that delivered packets, because the queue with the storm may be
//!   in backoff (`rxq_backoff`) and polled only when the other queues are empty.
//! - A queue with few misses is treated as a victim's. While victims' queues have packets, the share of misses adds at most about 20 µs in
//!   one iteration, so that packets in their rings need not wait long. While a victim's queue delivers full bursts, so that more packets
//!   wait in it, the budget grows by 1/256 of the time.
//!
//! The caller measures the cycles.

/// The budget grows by one cycle in 16.
const SHARE: u64 = 16;
/// The budget grows by one cycle in 256 while a victim's queue delivers full bursts, because the packets that wait in
/// its ring may be lost.
const SHARE_WHILE_VICTIM_QUEUE_FULL: u64 = 256;
/// Maximum budget in cycles: 8 million, which are a few milliseconds.
const BUDGET_MAX: i64 = 1 << 23;
/// Maximum number of cycles that the misses' share adds in one iteration while victims' queues have packets:
/// 65,536, about 20 µs.
const PER_ITERATION_MAX: u64 = 1 << 16;
/// The weight of a miss.
const MISS_WEIGHT: u64 = 4;
/// The weight of a packet with a megaflow, if its queue has no misses; it falls to 1 if the queue delivers almost only misses.
const VICTIM_WEIGHT: u64 = 16;
/// Averaging period: after this number of iterations with packets, about a third of an iteration's contribution is
/// left.
const ITERATIONS: u64 = 128;
/// Averaging period for one queue. It is longer, because flows come in runs: after a run without a miss, the queue of a
/// storm must not count as a victim's.
const ITERATIONS_OF_QUEUE: u64 = 1024;

/// A decaying sum, in units of 1/PERIOD.
#[derive(Clone, Copy, Debug, Default)]
struct DecayingSum<const PERIOD: u64>(u64);

impl<const PERIOD: u64> DecayingSum<PERIOD> {
    #[inline]
    fn add(&mut self, n: u64) {
        self.0 = self.0 - self.0.div_ceil(PERIOD) + n * PERIOD;
    }
}

/// The share of misses of one queue.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MissShare {
    misses: DecayingSum<ITERATIONS_OF_QUEUE>,
    packets: DecayingSum<ITERATIONS_OF_QUEUE>,
}

impl MissShare {
    #[inline]
    fn add(&mut self, misses: u64, packets: u64) {
        self.misses.add(misses);
        self.packets.add(packets);
    }

    /// Returns the weight of a packet with a megaflow: [`VICTIM_WEIGHT`] without misses, half of that with one miss in 64
    /// packets.
    #[inline]
    fn weight(&self) -> u64 {
        match self.misses.0 {
            0 => VICTIM_WEIGHT,
            misses => (VICTIM_WEIGHT * self.packets.0 / (self.packets.0 + 64 * misses)).max(1),
        }
    }
}

/// The upcall budget of one worker.
#[derive(Clone, Copy, Debug)]
pub struct UpcallBudget {
    cycles: i64,
    iteration: Iteration,
    /// Decaying sum of packets without a megaflow.
    misses: DecayingSum<ITERATIONS>,
    /// Decaying sum of the weights of packets with a megaflow.
    hits: DecayingSum<ITERATIONS>,
    /// Decaying sum of the packets of victims' queues.
    victims: DecayingSum<ITERATIONS>,
}

/// What the queues delivered in one iteration.
#[derive(Clone, Copy, Debug, Default)]
struct Iteration {
    /// Misses of the queue that is being received from, not yet added to `misses`.
    current_misses: u64,
    /// Packets of all queues.
    packets: u64,
    misses: u64,
    hits: u64,
    /// Packets of victims' queues.
    victims: u64,
    /// A victim's queue delivered a full burst.
    victim_queue_full: bool,
}

impl Default for UpcallBudget {
    fn default() -> UpcallBudget {
        let (misses, hits, victims) = Default::default();
        UpcallBudget { cycles: BUDGET_MAX, iteration: Iteration::default(), misses, hits, victims }
    }
}

impl UpcallBudget {
    /// Counts misses of the queue that is being received from.
    #[inline]
    pub fn missed(&mut self, packets: u64) {
        self.iteration.current_misses += packets;
    }

    /// Counts `packets` of a queue, misses included. `more`: it was a full burst, so more packets may wait.
    #[inline]
    pub(crate) fn received(&mut self, packets: u64, more: bool, miss_share: &mut MissShare) {
        let current_misses = std::mem::take(&mut self.iteration.current_misses).min(packets);
        miss_share.add(current_misses, packets);
        let weight = miss_share.weight();
        self.iteration.packets += packets;
        self.iteration.misses += current_misses;
        self.iteration.hits += (packets - current_misses) * weight;
        if 2 * weight > VICTIM_WEIGHT {
            self.iteration.victims += packets;
            self.iteration.victim_queue_full |= more;
        }
    }

    /// Ends an iteration that took this many cycles, and adds its share to the budget.
    #[inline]
    pub fn earn(&mut self, cycles: u64) {
        let iteration = std::mem::take(&mut self.iteration);
        if iteration.packets != 0 {
            self.misses.add(iteration.misses);
            self.hits.add(iteration.hits);
            self.victims.add(iteration.victims);
        }
        let mut share =
            cycles / if iteration.victim_queue_full { SHARE_WHILE_VICTIM_QUEUE_FULL } else { SHARE };
        if iteration.misses != 0 && !iteration.victim_queue_full {
            let misses = self.misses.0 * MISS_WEIGHT;
            let most = if self.victims.0 == 0 { BUDGET_MAX as u64 } else { PER_ITERATION_MAX };
            share = share.max(cycles.min(most) * misses / (misses + self.hits.0).max(1));
        }
        let share = i64::try_from(share).unwrap_or(BUDGET_MAX);
        self.cycles = self.cycles.saturating_add(share).min(BUDGET_MAX);
    }

    /// Returns whether some of the budget is left.
    pub fn is_left(&self) -> bool {
        self.cycles > 0
    }

    /// Spends the `cycles` of an inline translation. The budget may become negative; then it must be earned back
    /// before the next translation.
    pub fn spend(&mut self, cycles: u64) {
        self.cycles = self.cycles.saturating_sub(i64::try_from(cycles).unwrap_or(i64::MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spent() -> UpcallBudget {
        UpcallBudget { cycles: 0, ..UpcallBudget::default() }
    }

    #[test]
    fn debts_are_paid() {
        let mut budget = UpcallBudget::default();
        budget.earn(u64::MAX);
        budget.spend(BUDGET_MAX as u64 + 100);
        assert!(!budget.is_left());
        budget.earn(100 * SHARE);
        assert!(!budget.is_left());
        budget.earn(SHARE);
        assert!(budget.is_left());
    }

    /// The share of the worker's time that goes into inline translations of 1000 cycles, if the other work of an
    /// iteration takes 500 cycles. One queue delivers `misses` and `beside` hits, another queue `others` hits.
    fn inline_share(misses: u64, beside: u64, others: u64) -> f64 {
        let (mut budget, mut inline, mut all) = (spent(), 0, 0);
        let mut miss_shares = [MissShare::default(); 2];
        for _ in 0..10_000 {
            let took = if budget.is_left() { 1000 } else { 0 };
            budget.spend(took);
            budget.missed(misses);
            budget.received(misses + beside, false, &mut miss_shares[0]);
            budget.received(others, false, &mut miss_shares[1]);
            budget.earn(500 + took);
            (inline, all) = (inline + took, all + 500 + took);
        }
        inline as f64 / all as f64
    }

    #[test]
    fn misses_get_their_share_and_a_sixteenth_at_least() {
        let cases =
            [(0, 64, 0, 0.0625), (1, 0, 32, 0.0625), (1, 63, 0, 0.0625), (32, 0, 32, 0.2), (8, 32, 0, 0.5)];
        for (misses, beside, others, share) in cases {
            let got = inline_share(misses, beside, others);
            assert!((got - share).abs() < 0.01, "{misses}, {beside}, {others}: {got}");
        }
        // An iteration translates at most one miss, which takes 1000 of 1500 cycles: at most two thirds.
        assert!(inline_share(64, 0, 0) > 0.66);
    }

    /// The budget earned in 64,000 iterations, as a share of the time; all of it is spent. `brings`: misses,
    /// packets and queue of an iteration.
    fn earned_share(brings: impl Fn(u64) -> (u64, u64, usize)) -> f64 {
        const ITERATION: u64 = 1000;
        let (mut budget, mut earned) = (spent(), 0);
        let mut miss_shares = [MissShare::default(); 2];
        for iteration in 0..64_000 {
            let (misses, packets, queue) = brings(iteration);
            budget.missed(misses);
            budget.received(packets, false, &mut miss_shares[queue]);
            let before = budget.cycles;
            budget.earn(ITERATION);
            earned += budget.cycles - before;
            budget.spend((budget.cycles - before).unsigned_abs());
        }
        earned as f64 / (64_000 * ITERATION) as f64
    }

    #[test]
    fn misses_polled_while_other_queues_are_empty_earn_a_sixteenth() {
        let share = earned_share(|iteration| if iteration % 64 == 0 { (32, 32, 1) } else { (0, 32, 0) });
        assert!((0.06..0.065).contains(&share), "{share}");
    }

    /// Half of the flows of a queue are new, and they arrive one after the other.
    #[test]
    fn runs_of_known_flows_do_not_make_a_storm_a_victim() {
        let share = earned_share(|iteration| (if iteration / 500 % 2 == 0 { 64 } else { 0 }, 64, 0));
        assert!((0.4..0.53).contains(&share), "{share}");
    }

    #[test]
    fn one_iteration_adds_little_while_victims_have_packets() {
        let earned = |others: u64| {
            let mut budget = spent();
            budget.missed(64);
            budget.received(64, false, &mut MissShare::default());
            budget.received(others, false, &mut MissShare::default());
            budget.earn(PER_ITERATION_MAX * 4);
            budget.cycles
        };
        assert!(earned(1) < PER_ITERATION_MAX as i64);
        assert_eq!(earned(0), PER_ITERATION_MAX as i64 * 4);
    }

    #[test]
    fn a_victim_with_full_bursts_keeps_the_core() {
        let (mut budget, mut miss_shares) = (spent(), [MissShare::default(); 2]);
        let mut earned = |storm_has_more, other_has_more| {
            budget.missed(64);
            budget.received(64, storm_has_more, &mut miss_shares[0]);
            budget.received(64, other_has_more, &mut miss_shares[1]);
            let before = budget.cycles;
            budget.earn(SHARE_WHILE_VICTIM_QUEUE_FULL * 10);
            budget.cycles - before
        };
        assert!(earned(true, false) >= 160);
        assert_eq!(earned(true, true), 10);
        assert!(earned(true, false) >= 160);
    }
}
