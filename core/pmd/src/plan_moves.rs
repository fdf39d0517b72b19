//! Plans which queues to move so that no core is overloaded, with as few moves as possible.
//!
//! Each NUMA node is planned separately: a queue never leaves the node that polls it. Isolated cores (which poll pinned
//! queues only) are not planned, and pinned queues do not move. Two hyperthreads of a physical core slow each other
//! down while both are busy, so part of the smaller of both loads is added to the load of each.
//!
//! The plan is built step by step. In each step, one queue of the core to be relieved moves to another core, or is
//! swapped with a smaller queue of another core. Of all candidates, the planner chooses the one after which the highest
//! load of both cores and their siblings is lowest; a swap must be clearly better than a move, because it moves two
//! queues. The plan is complete when each core to be relieved has at most its target load, no step gains enough, or
//! [`Limits::max_moves`] is reached. The target load is `relieved_at` times the even load, or the load threshold if that is
//! lower, but at least the even load. The caller decides which cores to relieve, and when: see [`crate::predictive`].

use crate::cores::Core;
use std::collections::BTreeMap;
use units::{CoreId, NumaId};

/// Share of the smaller of both loads that is added to the load of each of two hyperthreads, because only the time in
/// which both are busy costs something: two busy hyperthreads do the work of 1.3 cores.
const SIBLING_SHARE: f64 = 2.0 / 1.3 - 1.0;

/// Headroom of a core: this factor times the root of the sum of its queues' squared deviations, because the deviations
/// of different queues are independent.
const HEADROOM_FACTOR: f64 = 0.25;

/// Weight of the target core's present load in the comparison of steps: of otherwise equal targets, the one with the
/// lower load is preferred.
const TIE_WEIGHT: f64 = 1e-6;

/// A core with a PMD thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PollingCore {
    /// The core.
    pub core: Core,
    /// The other hyperthread of the same physical core.
    pub sibling: Option<CoreId>,
    /// The core polls pinned queues only.
    pub isolated: bool,
}

/// A queue and its forecast.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Queue {
    /// The core that polls the queue.
    pub owner: CoreId,
    /// The queue must not move.
    pub pinned: bool,
    /// Forecast load, in cores.
    pub load: f64,
    /// Average deviation of the load from its forecast level, in cores.
    pub deviation: f64,
}

/// Limits of a plan.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// `pmd-auto-lb-load-threshold`, in cores. A core is overloaded if its load is higher than this and than the even load.
    pub load_threshold: f64,
    /// A core counts as relieved when its load is at most this multiple of the even load.
    pub relieved_at: f64,
    /// Largest number of moves in a NUMA node.
    pub max_moves: usize,
    /// Least reduction of the load, in cores, for which a queue moves away from an overloaded core.
    pub min_gain: f64,
    /// Least reduction of the load, in cores, for which a queue moves away from a core that is not overloaded.
    pub min_gain_below_limit: f64,
    /// Least reduction of the load by a swap of two queues, as a multiple of the least reduction by a move.
    pub swap_factor: f64,
}

/// The forecast load of a core.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CoreForecast {
    /// The core.
    pub core: CoreId,
    /// Its forecast load in cores, including the headroom for deviations and what the core's sibling adds.
    pub load: f64,
    /// Even load of its NUMA node, in cores: no assignment gives the busiest core of the node a lower load. It is the
    /// node's load divided by its capacity, or the load of its largest queue if that is more.
    pub even_load: f64,
}

/// A move of a queue to another core.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Move {
    /// Index of the queue in the slice passed to [`plan`].
    pub queue: usize,
    /// The core that polls the queue now.
    pub from: CoreId,
    /// The core that shall poll the queue.
    pub to: CoreId,
}

/// The state of a NUMA node before and after the moves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// The node.
    pub numa: NumaId,
    /// Load of its busiest core before the moves, in cores.
    pub before: f64,
    /// Load of its busiest core after the moves, in cores.
    pub after: f64,
    /// Even load of the node, in cores: the lowest load of the busiest core that an assignment could reach.
    pub even_load: f64,
    /// Number of moves.
    pub moves: usize,
}

/// A plan of moves; see the module documentation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// The moves, in the order in which they were found.
    pub moves: Vec<Move>,
    /// One entry for each NUMA node that has a core which is not isolated.
    pub nodes: Vec<Outcome>,
}

/// The cores of a node that are not isolated, and their loads.
struct Node<'a> {
    cores: Vec<&'a PollingCore>,
    /// Index of each core's sibling; `None`: it has none among `cores`.
    siblings: Vec<Option<usize>>,
    /// Sum of the forecast loads of each core's queues.
    load: Vec<f64>,
    /// Sum of the squared deviations of each core's queues.
    variance: Vec<f64>,
    /// For each queue, the index of its core; `None`: on another node or an isolated core.
    at: Vec<Option<usize>>,
}

/// A candidate step: queue `out` moves to core `to`, and in a swap queue `back` moves the other way.
#[derive(Clone, Copy)]
struct Step {
    out: usize,
    back: Option<usize>,
    to: usize,
    /// The highest load of the cores concerned after the step.
    load_after: f64,
}

impl<'a> Node<'a> {
    fn new(numa: NumaId, cores: &'a [PollingCore], queues: &[Queue]) -> Node<'a> {
        let cores: Vec<&PollingCore> = cores.iter().filter(|c| c.core.numa == numa && !c.isolated).collect();
        let index_of: BTreeMap<CoreId, usize> =
            cores.iter().enumerate().map(|(i, c)| (c.core.id, i)).collect();
        let siblings = cores.iter().map(|c| index_of.get(&c.sibling?).copied()).collect();
        let at: Vec<Option<usize>> = queues.iter().map(|q| index_of.get(&q.owner).copied()).collect();
        let (mut load, mut variance) = (vec![0.0; cores.len()], vec![0.0; cores.len()]);
        for (queue, at) in queues.iter().zip(&at) {
            let Some(at) = *at else { continue };
            load[at] += queue.load;
            variance[at] += queue.deviation.powi(2);
        }
        Node { cores, siblings, load, variance, at }
    }

    /// Load of a core, including headroom and what its sibling adds. `change`: a number for each core that is added to
    /// the sum of its queues' loads.
    fn load_with_change(&self, core: usize, change: impl Fn(usize) -> f64) -> f64 {
        let of = |core: usize| self.load[core] + HEADROOM_FACTOR * self.variance[core].sqrt() + change(core);
        let (own, other) = (of(core), self.siblings[core].map_or(0.0, of));
        own + SIBLING_SHARE * own.min(other)
    }

    /// The present load of a core, including headroom and what its sibling adds.
    fn load_now(&self, core: usize) -> f64 {
        self.load_with_change(core, |_| 0.0)
    }

    /// The load of the busiest core.
    fn busiest_load(&self) -> f64 {
        (0..self.cores.len()).map(|core| self.load_now(core)).fold(0.0, f64::max)
    }

    /// See [`CoreForecast::even_load`].
    fn even_load(&self, queues: &[Queue]) -> f64 {
        let largest = queues.iter().zip(&self.at).filter(|(_, at)| at.is_some()).map(|(q, _)| q.load);
        let capacity: f64 =
            self.siblings.iter().map(|o| if o.is_some() { 1.0 / (1.0 + SIBLING_SHARE) } else { 1.0 }).sum();
        largest.fold(self.load.iter().sum::<f64>() / capacity.max(1.0), f64::max)
    }

    /// The highest load among the two cores and their siblings if load `d` moved from core `from` to core `to`.
    fn highest_load_after(&self, from: usize, to: usize, d: f64) -> f64 {
        let change = |core| match core {
            c if c == from => -d,
            c if c == to => d,
            _ => 0.0,
        };
        let load_with_change = |core| self.load_with_change(core, change);
        let of = |core: usize| self.siblings[core].map_or(0.0, load_with_change);
        load_with_change(from).max(load_with_change(to)).max(of(from)).max(of(to))
            + TIE_WEIGHT * self.load[to]
    }

    /// Returns the step for core `hot` after which the highest load of both cores and their siblings is lowest, if it reduces the load of
    /// `hot` enough. `budget`: number of moves that the plan may still make; a swap needs two.
    fn best_step(&self, hot: usize, queues: &[Queue], limits: &Limits, budget: usize) -> Option<Step> {
        let load_now = self.load_now(hot);
        let min_gain =
            if load_now > limits.load_threshold { limits.min_gain } else { limits.min_gain_below_limit };
        let min_swap_gain = limits.swap_factor * min_gain;
        let mut best_step: Option<Step> = None;
        let mut consider = |step: Step, min_gain: f64| {
            // A swap must be better than a single move by the least gain of a swap.
            let rival = best_step.map_or(f64::MAX, |b| match (b.back, step.back) {
                (None, Some(_)) => b.load_after - min_swap_gain,
                (Some(_), None) => b.load_after + min_swap_gain,
                _ => b.load_after,
            });
            if load_now - step.load_after > min_gain && step.load_after < rival {
                best_step = Some(step);
            }
        };
        let movable = |i: usize| !queues[i].pinned;
        for out in (0..queues.len()).filter(|i| self.at[*i] == Some(hot) && movable(*i)) {
            let load = queues[out].load;
            for to in (0..self.cores.len()).filter(|to| *to != hot) {
                consider(
                    Step { out, back: None, to, load_after: self.highest_load_after(hot, to, load) },
                    min_gain,
                );
            }
            if budget < 2 {
                continue;
            }
            for back in (0..queues.len()).filter(|i| movable(*i) && queues[*i].load < load) {
                let Some(to) = self.at[back].filter(|to| *to != hot) else { continue };
                let load_after = self.highest_load_after(hot, to, load - queues[back].load);
                consider(Step { out, back: Some(back), to, load_after }, min_swap_gain);
            }
        }
        best_step
    }

    /// Adds the move of a queue to core `to`.
    fn move_queue(&mut self, queue: usize, to: usize, queues: &[Queue], moves: &mut Vec<Move>) {
        let Some(from) = self.at[queue].replace(to) else { return };
        self.load[from] -= queues[queue].load;
        self.load[to] += queues[queue].load;
        let variance = queues[queue].deviation.powi(2);
        self.variance[from] = (self.variance[from] - variance).max(0.0);
        self.variance[to] += variance;
        let id = |core: usize| self.cores[core].core.id;
        moves.push(Move { queue, from: id(from), to: id(to) });
    }

    /// Moves queues away from core `hot` until its load is at most `target`, no step gains enough, or the largest number
    /// of moves is reached.
    fn relieve(&mut self, hot: usize, queues: &[Queue], limits: &Limits, target: f64, moves: &mut Vec<Move>) {
        while moves.len() < limits.max_moves && self.load_now(hot) > target {
            let Some(step) = self.best_step(hot, queues, limits, limits.max_moves - moves.len()) else {
                return;
            };
            self.move_queue(step.out, step.to, queues, moves);
            step.back.iter().for_each(|back| self.move_queue(*back, hot, queues, moves));
        }
    }

    /// The cores to be relieved, busiest first.
    fn cores_to_relieve(
        &self,
        even_load: f64,
        mut needs_relief: impl FnMut(CoreForecast) -> bool,
    ) -> Vec<usize> {
        let forecast =
            |i: usize| CoreForecast { core: self.cores[i].core.id, load: self.load_now(i), even_load };
        let mut hot: Vec<usize> = (0..self.cores.len()).filter(|i| needs_relief(forecast(*i))).collect();
        hot.sort_by(|a, b| self.load_now(*b).total_cmp(&self.load_now(*a)));
        hot
    }
}

/// Plans moves that relieve the cores for which `needs_relief` returns true. `needs_relief` is called once for each core
/// that is not isolated. If `limits` allow no further step, the loads of these cores stay above their target.
pub fn plan(
    cores: &[PollingCore],
    queues: &[Queue],
    limits: &Limits,
    mut needs_relief: impl FnMut(CoreForecast) -> bool,
) -> Plan {
    let mut plan = Plan::default();
    let mut nodes: Vec<NumaId> = cores.iter().filter(|c| !c.isolated).map(|c| c.core.numa).collect();
    nodes.sort();
    nodes.dedup();
    for numa in nodes {
        let mut node = Node::new(numa, cores, queues);
        let (before, even_load) = (node.busiest_load(), node.even_load(queues));
        // An overloaded core drops packets, so it is relieved down to the load limit even if `relieved_at` times the
        // even load is more than that.
        let target = (limits.relieved_at * even_load).min(even_load.max(limits.load_threshold));
        let mut moves = Vec::new();
        for hot in node.cores_to_relieve(even_load, &mut needs_relief) {
            node.relieve(hot, queues, limits, target, &mut moves);
        }
        plan.nodes.push(Outcome { numa, before, after: node.busiest_load(), even_load, moves: moves.len() });
        plan.moves.append(&mut moves);
    }
    plan
}

#[cfg(test)]
mod tests;
