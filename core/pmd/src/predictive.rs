//! `pmd-auto-lb-policy=predictive`: once a second, moves as few queues as necessary.
//!
//! Each core has a regret: the accumulated cost of not having moved a queue. It grows with the forecast load above
//! the core's limit, and much more slowly with the load above that of an evenly loaded node; it decays with time. A
//! core is relieved when its regret reaches the cost of a move. So a core that loses many packets is relieved at
//! once, one that loses few soon, one that is only loaded unevenly after some seconds, and a short swing moves
//! nothing.
//!
//! The limit is `pmd-auto-lb-load-threshold` if it is set. The other two `pmd-auto-lb` settings belong to the
//! variance policy. This policy does not need them, because it knows what a move gains.

use crate::plan::{Limits, Plan, PollingCore, Queue, Standing, plan};
use std::collections::{BTreeMap, BTreeSet};
use units::{CoreId, PortNo, QueueId};

/// Default load limit of a core in percent.
pub const HOT: u8 = 99;
/// Regret for each second in which the load exceeds the limit by one core. Queues move when the regret reaches 1.
const OVERLOAD: f64 = 15.0;
/// Regret for each second in which the load exceeds that of an evenly loaded node by one core, and the factor up to
/// which a node counts as even.
const UNEVEN: f64 = 3.0;
const EVEN: f64 = 1.12;
/// Share of a regret that is left after a second.
const FADE: f64 = 0.98;
/// Load of a single queue, in cores, from which it is reported as too much for one core.
const ELEPHANT: f64 = 0.95;
/// Load in cores below which such a queue may be reported again.
const CALM: f64 = 0.8;

/// `pmd-auto-lb-policy`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The policy of this module.
    Predictive,
    /// The policy of Open vSwitch: see [`crate::balance`].
    Variance,
}

impl Policy {
    /// Parses the name that settings use.
    pub fn parse(name: &str) -> Option<Policy> {
        [Policy::Predictive, Policy::Variance].into_iter().find(|p| p.name() == name)
    }

    /// The name that settings use.
    pub fn name(self) -> &'static str {
        match self {
            Policy::Predictive => "predictive",
            Policy::Variance => "variance",
        }
    }
}

/// The limits of a plan that relieves overloaded cores.
fn relief(full: f64) -> Limits {
    Limits { full, enough: EVEN, moves: 6, gain: 0.0045, early: 0.04, swap: 5.0 }
}

/// The state that the policy keeps between seconds.
#[derive(Clone, Debug, Default)]
pub struct Predictor {
    regrets: BTreeMap<CoreId, f64>,
    elephants: BTreeSet<(PortNo, QueueId)>,
}

impl Predictor {
    /// Called once a second; returns the moves to do now. `hot`: the load limit in percent.
    pub fn second(&mut self, cores: &[PollingCore], queues: &[Queue], hot: u8) -> Plan {
        let full = f64::from(hot) / 100.0;
        let old = std::mem::take(&mut self.regrets);
        plan(cores, queues, &relief(full), |s| {
            let before = FADE * old.get(&s.core).copied().unwrap_or(0.0);
            let regret = before + regret(&s, full);
            let due = regret >= 1.0;
            self.regrets.insert(s.core, if due { 0.0 } else { regret });
            due
        })
    }

    /// Whether to report that this queue alone is too much for any core: once, until its load has fallen below
    /// `CALM`.
    pub fn is_elephant(&mut self, key: (PortNo, QueueId), load: f64) -> bool {
        if load < CALM {
            self.elephants.remove(&key);
        }
        load > ELEPHANT && self.elephants.insert(key)
    }
}

/// The regret of the last second.
fn regret(s: &Standing, full: f64) -> f64 {
    OVERLOAD * (s.load - full.max(s.bound)).max(0.0) + UNEVEN * (s.load - EVEN * s.bound).max(0.0)
}

/// The plan that `pmd-auto-lb` commands show: what would move if queues were assigned by forecast now.
pub fn preview(cores: &[PollingCore], queues: &[Queue]) -> Plan {
    let limits = Limits { enough: 1.02, moves: queues.len(), early: 0.01, swap: 2.0, ..relief(1.0) };
    plan(cores, queues, &limits, |s| s.load > limits.enough * s.bound)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cores::Core;
    use units::{CoreId, NumaId};

    fn cores() -> Vec<PollingCore> {
        let core = |id| Core { id: CoreId(id), numa: NumaId(0) };
        (0..2).map(|id| PollingCore { core: core(id), sibling: None, isolated: false }).collect()
    }

    fn queues(loads: &[f64]) -> Vec<Queue> {
        loads.iter().map(|load| Queue { owner: CoreId(0), pinned: false, load: *load, doubt: 0.0 }).collect()
    }

    /// After how many seconds queues move.
    fn seconds(loads: &[f64]) -> Option<usize> {
        let mut predictor = Predictor::default();
        (1..100).find(|_| !predictor.second(&cores(), &queues(loads), HOT).moves.is_empty())
    }

    #[test]
    fn the_more_is_lost_the_sooner_queues_move() {
        assert_eq!(seconds(&[0.6, 0.6]), Some(1));
        let soon = seconds(&[0.2, 0.2]).unwrap();
        let later = seconds(&[0.1, 0.1]).unwrap();
        assert!(1 < soon && soon < later && later < 10, "{soon} {later}");
        // A move that gains too little is never made.
        assert_eq!(seconds(&[0.02, 0.02]), None);
        assert_eq!(preview(&cores(), &queues(&[0.2, 0.2])).moves.len(), 1);
    }

    #[test]
    fn a_short_swing_moves_nothing() {
        let mut predictor = Predictor::default();
        for second in 0..600 {
            let swing = if second % 60 == 0 { 0.3 } else { 0.16 };
            let mut queues = queues(&[0.14, swing, 0.3]);
            queues[2].owner = CoreId(1);
            assert!(predictor.second(&cores(), &queues, HOT).moves.is_empty(), "{second}");
        }
    }

    #[test]
    fn an_elephant_is_reported_once() {
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
