//! `pmd-auto-lb-policy=predictive`: once a second, moves as few queues as necessary.
//!
//! Each core has a regret: the accumulated cost of not having moved a queue. Every second the regret decays by 2 %.
//! Then it grows by 15 times the core's forecast load above the load limit, plus 3 times the forecast load above 1.12
//! times the even load of the core's NUMA node. When the regret of a core reaches 1, the cost of a move, the core is
//! relieved. So a heavily overloaded core is relieved within a second, a slightly overloaded one within a few seconds,
//! and an unevenly loaded one later. A short load peak moves nothing.
//!
//! The load limit is `pmd-auto-lb-load-threshold` if that is set, otherwise 99 %; but at least the even load, which no
//! move can improve. `pmd-auto-lb-improvement-threshold` and `pmd-auto-lb-rebal-interval` belong to the variance policy.
//! This policy does not use them: it computes the gain of each move, and moves are cheap. The constants were chosen in
//! `testing/simulation` (ADR 13).

use crate::plan_moves::{CoreForecast, Limits, Plan, PollingCore, Queue, plan};
use std::collections::{BTreeMap, BTreeSet};
use units::{CoreId, PortNo, QueueId};

/// Default load limit of a core, in percent.
pub const DEFAULT_LOAD_THRESHOLD: u8 = 99;
/// Regret that a core gains in a second, for a load of 1.0 (a full core) above the load limit.
const OVERLOAD_REGRET: f64 = 15.0;
/// Regret that a core gains in a second, for a load of 1.0 above `EVEN_FACTOR` times the even load.
const UNEVEN_REGRET: f64 = 3.0;
/// A core with less than this multiple of the even load counts as evenly loaded.
const EVEN_FACTOR: f64 = 1.12;
/// Share of the regret that remains after a second.
const REGRET_DECAY: f64 = 0.98;
/// A queue with a higher load than this, in cores, is reported: it needs nearly a whole core, so no move can help.
const UNSPLITTABLE_QUEUE_LOAD: f64 = 0.95;
/// A reported queue is reported again only after its load has fallen below this, in cores.
const UNSPLITTABLE_QUEUE_LOAD_RESET: f64 = 0.8;

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

/// The limits of a plan that relieves overloaded cores. `load_threshold`: in cores.
fn relief(load_threshold: f64) -> Limits {
    Limits {
        load_threshold,
        relieved_at: EVEN_FACTOR,
        max_moves: 6,
        min_gain: 0.0045,
        min_gain_below_limit: 0.04,
        swap_factor: 5.0,
    }
}

/// The state that the predictive policy keeps from one second to the next.
#[derive(Clone, Debug, Default)]
pub struct PredictiveBalancer {
    regrets: BTreeMap<CoreId, f64>,
    /// Queues that were reported as too much for one core.
    reported_unsplittable: BTreeSet<(PortNo, QueueId)>,
}

impl PredictiveBalancer {
    /// Called once a second; returns the moves to do now. `load_threshold`: in percent of a core.
    pub fn plan_moves(&mut self, cores: &[PollingCore], queues: &[Queue], load_threshold: u8) -> Plan {
        let load_threshold = f64::from(load_threshold) / 100.0;
        let old = std::mem::take(&mut self.regrets);
        plan(cores, queues, &relief(load_threshold), |s| {
            let before = REGRET_DECAY * old.get(&s.core).copied().unwrap_or(0.0);
            let regret = before + regret(&s, load_threshold);
            let due = regret >= 1.0;
            self.regrets.insert(s.core, if due { 0.0 } else { regret });
            due
        })
    }

    /// Whether to report that a single core cannot serve this queue. True once, and again only after the queue's load
    /// has fallen below `UNSPLITTABLE_QUEUE_LOAD_RESET`.
    pub fn must_report_unsplittable(&mut self, key: (PortNo, QueueId), load: f64) -> bool {
        if load < UNSPLITTABLE_QUEUE_LOAD_RESET {
            self.reported_unsplittable.remove(&key);
        }
        load > UNSPLITTABLE_QUEUE_LOAD && self.reported_unsplittable.insert(key)
    }
}

/// The regret that a core gains in one second.
fn regret(s: &CoreForecast, load_threshold: f64) -> f64 {
    OVERLOAD_REGRET * (s.load - load_threshold.max(s.even_load)).max(0.0)
        + UNEVEN_REGRET * (s.load - EVEN_FACTOR * s.even_load).max(0.0)
}

/// The plan that commands show: the moves that would balance the forecast loads now, as evenly as possible.
pub fn preview(cores: &[PollingCore], queues: &[Queue]) -> Plan {
    let limits = Limits {
        relieved_at: 1.02,
        max_moves: queues.len(),
        min_gain_below_limit: 0.01,
        swap_factor: 2.0,
        ..relief(1.0)
    };
    plan(cores, queues, &limits, |s| s.load > limits.relieved_at * s.even_load)
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

    /// Queues of core 0.
    fn queues(loads: &[f64]) -> Vec<Queue> {
        loads
            .iter()
            .map(|load| Queue { owner: CoreId(0), pinned: false, load: *load, deviation: 0.0 })
            .collect()
    }

    /// Number of seconds until the first move.
    fn seconds_until_move(loads: &[f64]) -> Option<usize> {
        let mut balancer = PredictiveBalancer::default();
        (1..100)
            .find(|_| !balancer.plan_moves(&cores(), &queues(loads), DEFAULT_LOAD_THRESHOLD).moves.is_empty())
    }

    #[test]
    fn the_more_is_lost_the_sooner_queues_move() {
        assert_eq!(seconds_until_move(&[0.6, 0.6]), Some(1));
        let soon = seconds_until_move(&[0.2, 0.2]).unwrap();
        let later = seconds_until_move(&[0.1, 0.1]).unwrap();
        assert!(1 < soon && soon < later && later < 10, "{soon} {later}");
        // A move that gains too little is never made.
        assert_eq!(seconds_until_move(&[0.02, 0.02]), None);
        assert_eq!(preview(&cores(), &queues(&[0.2, 0.2])).moves.len(), 1);
    }

    #[test]
    fn a_short_swing_moves_nothing() {
        let mut balancer = PredictiveBalancer::default();
        for second in 0..600 {
            let swing = if second % 60 == 0 { 0.3 } else { 0.16 };
            let mut queues = queues(&[0.14, swing, 0.3]);
            queues[2].owner = CoreId(1);
            assert!(
                balancer.plan_moves(&cores(), &queues, DEFAULT_LOAD_THRESHOLD).moves.is_empty(),
                "{second}"
            );
        }
    }

    #[test]
    fn an_unsplittable_queue_is_reported_once() {
        let mut balancer = PredictiveBalancer::default();
        let key = (PortNo(1), QueueId(0));
        let reported: Vec<bool> = [0.9, 0.96, 1.0, 0.9, 1.0, 0.5, 1.0]
            .into_iter()
            .map(|l| balancer.must_report_unsplittable(key, l))
            .collect();
        assert_eq!(reported, [false, true, false, false, false, false, true]);
    }

    #[test]
    fn names() {
        assert_eq!(Policy::parse("predictive").map(Policy::name), Some("predictive"));
        assert_eq!((Policy::parse("variance"), Policy::parse("")), (Some(Policy::Variance), None));
    }
}
