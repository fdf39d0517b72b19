//! `pmd-auto-lb-policy=predictive`: once a second, moves the few queues that must move.
//!
//! A core is relieved when its queues are forecast to take more of it than the bound allows. Slower, a node whose loads
//! are far apart is tidied up though nobody suffers yet: what is even has room for whatever grows. Nothing else moves.
//! The setting `pmd-auto-lb-load-threshold`, where it is given, is the bound; the other two are those of the other
//! policy, which this one does not need: it knows what a move gains, and does not fear one.

use crate::plan::{Limits, Plan, Queue, Seat, plan};
use std::collections::BTreeSet;
use units::{PortNo, QueueId};

/// The bound where none is given: above it bursts begin to wait.
pub const HOT: u8 = 85;
/// What a queue alone may take of a core before somebody should split it.
const ELEPHANT: f64 = 0.95;
/// A queue that fell below this is forgotten to have been one.
const CALM: f64 = 0.8;
/// Tidying up happens every so many seconds.
const TIDY: u64 = 10;

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

/// What to do when a core is too busy.
fn relief(hot: f64) -> Limits {
    Limits { hot, near: 1.03, enough: 1.02, moves: 6, gain: 0.008, early: 0.032 }
}

/// What to do when cores are far apart.
fn tidying() -> Limits {
    Limits { hot: 0.1, near: 1.2, enough: 1.1, moves: 2, gain: 0.03, early: 0.03 }
}

/// The loop's memory.
#[derive(Clone, Debug, Default)]
pub struct Predictor {
    seconds: u64,
    elephants: BTreeSet<(PortNo, QueueId)>,
}

impl Predictor {
    /// A second ended: what to move now. `hot`: the bound, in percent.
    pub fn second(&mut self, seats: &[Seat], queues: &[Queue], hot: u8) -> Plan {
        self.seconds += 1;
        let relieved = plan(seats, queues, &relief(f64::from(hot) / 100.0));
        match relieved.moves.is_empty() && self.seconds.is_multiple_of(TIDY) {
            true => plan(seats, queues, &tidying()),
            false => relieved,
        }
    }

    /// Whether to report that this queue alone is too much for any core: once, until it has calmed down.
    pub fn is_elephant(&mut self, key: (PortNo, QueueId), load: f64) -> bool {
        if load < CALM {
            self.elephants.remove(&key);
        }
        load > ELEPHANT && self.elephants.insert(key)
    }
}

/// What an administrator who asks is shown: what would move if queues were given out by forecast this very moment.
pub fn preview(seats: &[Seat], queues: &[Queue]) -> Plan {
    plan(seats, queues, &Limits { hot: 0.0, moves: queues.len(), ..relief(0.0) })
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
        loads.iter().map(|load| Queue { owner: CoreId(0), pinned: false, load: *load }).collect()
    }

    #[test]
    fn a_hot_core_is_relieved_at_once_and_a_lopsided_node_soon() {
        let mut predictor = Predictor::default();
        assert_eq!(predictor.second(&seats(), &queues(&[0.45, 0.45]), HOT).moves.len(), 1);
        assert!(predictor.second(&seats(), &queues(&[0.2, 0.2]), HOT).moves.is_empty());
        assert_eq!(
            (0..10).map(|_| predictor.second(&seats(), &queues(&[0.2, 0.2]), HOT).moves.len()).sum::<usize>(),
            1
        );
        assert_eq!(preview(&seats(), &queues(&[0.2, 0.2])).moves.len(), 1);
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
