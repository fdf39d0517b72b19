//! How much of its time a worker may spend on translating by itself while others do it for it.
//!
//! When no more can be parked, a worker translates inline rather than lose a packet; but a storm of misses must not take
//! the core from the packets that have their megaflow. So inline translations are paid from an allowance that grows
//! with the time that passes: by a sixteenth of it, or by the misses' share of the packets where that is more. In this, packets of
//! queues that bring hardly any misses ([`Mix`]) weigh more than misses, and what comes by the same queue as they weighs less: a
//! storm is first its own port's trouble, and a core that has hardly anything but misses gives them its time. The shares are those
//! of some hundred turns that brought packets, since a queue may be passed over (`brake`) and come when the others just have
//! nothing. Where calm queues bring packets the allowance does not grow by more than a ring can wait for in one turn, since they
//! wait meanwhile; and where they bring as many as can be taken at once, so that more are waiting, by next to nothing. Cycles
//! are told.

/// One cycle in so many, at least.
const SHARE: u64 = 16;
/// The same while a calm queue has more than a turn can take: what it waits for is lost to it.
const SHARE_OF_THE_PRESSED: u64 = 256;
/// The most that is saved up: some milliseconds at today's rates.
const MOST: i64 = 1 << 23;
/// What the misses' share is worth in one turn for which other queues wait, at most: some 20 µs.
const IN_A_TURN: u64 = 1 << 16;
/// What a packet without a megaflow weighs, where one with a megaflow that came by a queue of nearly nothing but misses weighs
/// one.
const MISS: u64 = 4;
/// What a packet of a queue without misses weighs.
const CALM: u64 = 16;
/// After so many turns that brought packets, about a third of what one brought still counts.
const TURNS: u64 = 128;
/// The same of the turns of one queue: flows may come in runs, and a run without a miss does not make it a calm one.
const TURNS_OF_QUEUE: u64 = 1024;

/// A sum that forgets, in parts of one.
#[derive(Clone, Copy, Debug, Default)]
struct Recent<const TURNS: u64>(u64);

impl<const TURNS: u64> Recent<TURNS> {
    #[inline]
    fn add(&mut self, n: u64) {
        self.0 = self.0 - self.0.div_ceil(TURNS) + n * TURNS;
    }
}

/// How much of what one queue brings has no megaflow.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mix {
    misses: Recent<TURNS_OF_QUEUE>,
    packets: Recent<TURNS_OF_QUEUE>,
}

impl Mix {
    #[inline]
    fn add(&mut self, misses: u64, packets: u64) {
        self.misses.add(misses);
        self.packets.add(packets);
    }

    /// What a packet of the queue weighs that has a megaflow: [`CALM`] without misses, half of it with one in 64 packets.
    #[inline]
    fn weight(&self) -> u64 {
        match self.misses.0 {
            0 => CALM,
            misses => (CALM * self.packets.0 / (self.packets.0 + 64 * misses)).max(1),
        }
    }
}

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    cycles: i64,
    turn: Turn,
    /// Packets without a megaflow, and the weight of the others.
    misses: Recent<TURNS>,
    hits: Recent<TURNS>,
    /// Packets of calm queues.
    calm: Recent<TURNS>,
}

/// What a turn brought.
#[derive(Clone, Copy, Debug, Default)]
struct Turn {
    /// Without a megaflow, by the queue that is being received from.
    fresh: u64,
    /// Anything.
    packets: u64,
    misses: u64,
    hits: u64,
    calm: u64,
    /// A calm queue has more.
    pressed: bool,
}

impl Default for Budget {
    fn default() -> Budget {
        let (misses, hits, calm) = Default::default();
        Budget { cycles: MOST, turn: Turn::default(), misses, hits, calm }
    }
}

impl Budget {
    /// So many packets had no megaflow.
    #[inline]
    pub fn missed(&mut self, packets: u64) {
        self.turn.fresh += packets;
    }

    /// A queue brought so many packets, those without a megaflow among them, and has more to bring.
    #[inline]
    pub(crate) fn received(&mut self, packets: u64, more: bool, mix: &mut Mix) {
        let fresh = std::mem::take(&mut self.turn.fresh).min(packets);
        mix.add(fresh, packets);
        let weight = mix.weight();
        self.turn.packets += packets;
        self.turn.misses += fresh;
        self.turn.hits += (packets - fresh) * weight;
        if 2 * weight > CALM {
            self.turn.calm += packets;
            self.turn.pressed |= more;
        }
    }

    /// A turn that took so many cycles has ended.
    #[inline]
    pub fn earn(&mut self, cycles: u64) {
        let turn = std::mem::take(&mut self.turn);
        if turn.packets != 0 {
            self.misses.add(turn.misses);
            self.hits.add(turn.hits);
            self.calm.add(turn.calm);
        }
        let mut share = cycles / if turn.pressed { SHARE_OF_THE_PRESSED } else { SHARE };
        if turn.misses != 0 && !turn.pressed {
            let misses = self.misses.0 * MISS;
            let most = if self.calm.0 == 0 { MOST as u64 } else { IN_A_TURN };
            share = share.max(cycles.min(most) * misses / (misses + self.hits.0).max(1));
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

    fn spent() -> Budget {
        Budget { cycles: 0, ..Budget::default() }
    }

    #[test]
    fn debts_are_paid() {
        let mut budget = Budget::default();
        budget.earn(u64::MAX);
        budget.spend(MOST as u64 + 100);
        assert!(!budget.is_left());
        budget.earn(100 * SHARE);
        assert!(!budget.is_left());
        budget.earn(SHARE);
        assert!(budget.is_left());
    }

    /// The share of its time that goes into inline translations of 1000 cycles, where a turn's other work takes 500: one queue
    /// brings `misses` and `beside`, another `others`.
    fn inline_share(misses: u64, beside: u64, others: u64) -> f64 {
        let (mut budget, mut inline, mut all) = (spent(), 0, 0);
        let mut mixes = [Mix::default(); 2];
        for _ in 0..10_000 {
            let took = if budget.is_left() { 1000 } else { 0 };
            budget.spend(took);
            budget.missed(misses);
            budget.received(misses + beside, false, &mut mixes[0]);
            budget.received(others, false, &mut mixes[1]);
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
        // Each turn has one.
        assert!(inline_share(64, 0, 0) > 0.66);
    }

    /// The share of 64,000 turns that is earned, all of which is spent. `brings`: misses and packets of a turn, and its queue.
    fn earned_share(brings: impl Fn(u64) -> (u64, u64, usize)) -> f64 {
        const TURN: u64 = 1000;
        let (mut budget, mut earned) = (spent(), 0);
        let mut mixes = [Mix::default(); 2];
        for turn in 0..64_000 {
            let (misses, packets, queue) = brings(turn);
            budget.missed(misses);
            budget.received(packets, false, &mut mixes[queue]);
            let before = budget.cycles;
            budget.earn(TURN);
            earned += budget.cycles - before;
            budget.spend((budget.cycles - before).unsigned_abs());
        }
        earned as f64 / (64_000 * TURN) as f64
    }

    #[test]
    fn misses_that_come_when_others_have_nothing_earn_no_more() {
        let share = earned_share(|turn| if turn % 64 == 0 { (32, 32, 1) } else { (0, 32, 0) });
        assert!((0.06..0.065).contains(&share), "{share}");
    }

    /// Half of the flows of a queue are new, and they come one after the other.
    #[test]
    fn runs_of_known_flows_do_not_make_a_queue_calm() {
        let share = earned_share(|turn| (if turn / 500 % 2 == 0 { 64 } else { 0 }, 64, 0));
        assert!((0.4..0.53).contains(&share), "{share}");
    }

    #[test]
    fn one_turn_is_not_worth_more_than_calm_queues_can_wait() {
        let earned = |others: u64| {
            let mut budget = spent();
            budget.missed(64);
            budget.received(64, false, &mut Mix::default());
            budget.received(others, false, &mut Mix::default());
            budget.earn(IN_A_TURN * 4);
            budget.cycles
        };
        assert!(earned(1) < IN_A_TURN as i64);
        assert_eq!(earned(0), IN_A_TURN as i64 * 4);
    }

    #[test]
    fn who_has_more_than_can_be_taken_keeps_the_core() {
        let (mut budget, mut mixes) = (spent(), [Mix::default(); 2]);
        let mut earned = |storm_has_more, other_has_more| {
            budget.missed(64);
            budget.received(64, storm_has_more, &mut mixes[0]);
            budget.received(64, other_has_more, &mut mixes[1]);
            let before = budget.cycles;
            budget.earn(SHARE_OF_THE_PRESSED * 10);
            budget.cycles - before
        };
        assert!(earned(true, false) >= 160);
        assert_eq!(earned(true, true), 10);
        assert!(earned(true, false) >= 160);
    }
}
