//! `pmd-auto-lb-policy=predictive`: once a second, moves the few queues that must move.
//!
//! Each core has a regret: what it cost so far that nothing was moved. It grows by what the core is forecast to be asked
//! for beyond its bound, and, much slower, by how far it is above what an even node would ask of it; old regret fades. A
//! core is relieved when its regret would have paid for a move. So a core that loses much is relieved at once, one that
//! loses little soon, one that is only uneven after seconds, and a short swing moves nothing.
//!
//! The setting `pmd-auto-lb-load-threshold`, where it is given, is the bound; the other two are those of the other
//! policy, which this one does not need: it knows what a move gains.

use crate::plan::{Limits, Plan, Queue, Seat, Standing, plan};
use std::collections::{BTreeMap, BTreeSet};
use units::{CoreId, PortNo, QueueId};

/// The bound where none is given, in percent.
pub const HOT: u8 = 99;
/// Regret for a second in which a core is asked for one core more than its bound. At 1 queues move.
const OVERLOAD: f64 = 15.0;
/// The same for one core more than an even node would ask of it, and what is taken for even.
const UNEVEN: f64 = 3.0;
const EVEN: f64 = 1.12;
/// How much of a regret is left after a second.
const FADE: f64 = 0.98;
/// What a queue alone may take of a core before somebody should split it.
const ELEPHANT: f64 = 0.95;
/// A queue that fell below this is forgotten to have been one.
const CALM: f64 = 0.8;

/// `pmd-auto-lb-policy`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// This module.
    Predictive,
    /// That of Open vSwitch: see [`crate::balance`].
    Variance,
}

impl Policy {
    /// By the name that settings use.
    pub fn parse(name: &str) -> Option<Policy> {
        [Policy::Predictive, Policy::Variance].into_iter().find(|p| p.name() == name)
    }

    /// That name.
    pub fn name(self) -> &'static str {
        match self {
            Policy::Predictive => "predictive",
            Policy::Variance => "variance",
        }
    }
}

/// What to do for a core that is to be relieved.
fn relief(full: f64) -> Limits {
    Limits { full, enough: EVEN, moves: 6, gain: 0.0045, early: 0.04, swap: 5.0 }
}

/// The loop's memory.
#[derive(Clone, Debug, Default)]
pub struct Predictor {
    regrets: BTreeMap<CoreId, f64>,
    elephants: BTreeSet<(PortNo, QueueId)>,
}

impl Predictor {
    /// A second ended: what to move now. `hot`: the bound, in percent.
    pub fn second(&mut self, seats: &[Seat], queues: &[Queue], hot: u8) -> Plan {
        let full = f64::from(hot) / 100.0;
        let old = std::mem::take(&mut self.regrets);
        plan(seats, queues, &relief(full), |s| {
            let before = FADE * old.get(&s.core).copied().unwrap_or(0.0);
            let regret = before + regret(&s, full);
            let due = regret >= 1.0;
            self.regrets.insert(s.core, if due { 0.0 } else { regret });
            due
        })
    }

    /// Whether to report that this queue alone is too much for any core: once, until it has calmed down.
    pub fn is_elephant(&mut self, key: (PortNo, QueueId), load: f64) -> bool {
        if load < CALM {
            self.elephants.remove(&key);
        }
        load > ELEPHANT && self.elephants.insert(key)
    }
}

/// What the last second cost for want of a move.
fn regret(s: &Standing, full: f64) -> f64 {
    OVERLOAD * (s.load - full.max(s.bound)).max(0.0) + UNEVEN * (s.load - EVEN * s.bound).max(0.0)
}

/// What an administrator who asks is shown: what would move if queues were given out by forecast this very moment.
pub fn preview(seats: &[Seat], queues: &[Queue]) -> Plan {
    let limits = Limits { enough: 1.02, moves: queues.len(), early: 0.01, swap: 2.0, ..relief(1.0) };
    plan(seats, queues, &limits, |s| s.load > limits.enough * s.bound)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cores::Core;
    use units::{CoreId, NumaId};

    fn seats() -> Vec<Seat> {
        let core = |id| Core { id: CoreId(id), numa: NumaId(0) };
        (0..2).map(|id| Seat { core: core(id), sibling: None, isolated: false }).collect()
    }

    fn queues(loads: &[f64]) -> Vec<Queue> {
        loads.iter().map(|load| Queue { owner: CoreId(0), pinned: false, load: *load, doubt: 0.0 }).collect()
    }

    /// After how many seconds queues move.
    fn seconds(loads: &[f64]) -> Option<usize> {
        let mut predictor = Predictor::default();
        (1..100).find(|_| !predictor.second(&seats(), &queues(loads), HOT).moves.is_empty())
    }

    #[test]
    fn the_more_is_lost_the_sooner_queues_move() {
        assert_eq!(seconds(&[0.6, 0.6]), Some(1));
        let soon = seconds(&[0.2, 0.2]).unwrap();
        let later = seconds(&[0.1, 0.1]).unwrap();
        assert!(1 < soon && soon < later && later < 10, "{soon} {later}");
        // What gains too little does not move, however long.
        assert_eq!(seconds(&[0.02, 0.02]), None);
        assert_eq!(preview(&seats(), &queues(&[0.2, 0.2])).moves.len(), 1);
    }

    #[test]
    fn a_short_swing_moves_nothing() {
        let mut predictor = Predictor::default();
        for second in 0..600 {
            let swing = if second % 60 == 0 { 0.3 } else { 0.16 };
            let mut queues = queues(&[0.14, swing, 0.3]);
            queues[2].owner = CoreId(1);
            assert!(predictor.second(&seats(), &queues, HOT).moves.is_empty(), "{second}");
        }
    }

    #[test]
    fn an_elephant_is_told_once() {
        let mut predictor = Predictor::default();
        let key = (PortNo(1), QueueId(0));
        let told: Vec<bool> =
            [0.9, 0.96, 1.0, 0.9, 1.0, 0.5, 1.0].into_iter().map(|l| predictor.is_elephant(key, l)).collect();
        assert_eq!(told, [false, true, false, false, false, false, true]);
    }

    #[test]
    fn names() {
        assert_eq!(Policy::parse("predictive").map(Policy::name), Some("predictive"));
        assert_eq!((Policy::parse("variance"), Policy::parse("")), (Some(Policy::Variance), None));
    }
}
