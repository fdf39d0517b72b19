//! Plans which queues to move so that no core is overloaded, with as few moves as possible.
//!
//! Each NUMA node is planned separately: a queue never leaves the node that polls it. Cores that poll pinned queues
//! only take no part, and pinned queues stay where they are. Two hyperthreads of a physical core slow each other
//! down, so the load of one adds to the other's.
//!
//! The plan is built step by step. In each step, one queue of the core to be relieved moves to another core, or is
//! swapped with a smaller queue, whichever gives the lower maximum of the two cores' loads. The plan ends when these
//! cores are below the limit. The caller decides which cores are to be relieved, and when: see [`crate::predictive`].

use crate::cores::Core;
use std::collections::BTreeMap;
use units::{CoreId, NumaId};

/// Load that a hyperthread gains from a sibling that is equally busy: two hyperthreads do the work of 1.3 cores.
const SIBLING: f64 = 2.0 / 1.3 - 1.0;

/// Forecast errors of a core's queues are independent: this share of their combined error is added to the core's
/// load.
const SAFETY: f64 = 0.25;

/// Tie breaker: prefers the target core with the lower load, by this factor.
const TIE: f64 = 1e-6;

/// A core that polls.
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
    /// Average forecast error, in cores.
    pub doubt: f64,
}

/// Limits of a plan.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// A core with a higher load is overloaded, in cores.
    pub full: f64,
    /// A core is relieved when its load is below this multiple of the lower bound.
    pub enough: f64,
    /// Largest number of moves.
    pub moves: usize,
    /// What a move must gain, in cores, if the core is overloaded.
    pub gain: f64,
    /// What a move must gain, in cores, otherwise.
    pub early: f64,
    /// What a swap of two queues must gain, as a multiple of the gain of a move.
    pub swap: f64,
}

/// The forecast state of a core.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Standing {
    /// The core.
    pub core: CoreId,
    /// Its load, including the load from its sibling and the forecast error, in cores.
    pub load: f64,
    /// Lower bound: no assignment can give the busiest core of the node a lower load than this.
    pub bound: f64,
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
    /// Lower bound of that load over all assignments.
    pub bound: f64,
    /// Number of moves.
    pub moves: usize,
}

/// A plan; see the module documentation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// In the order in which they were found.
    pub moves: Vec<Move>,
    /// One entry for each node with cores that take part.
    pub nodes: Vec<Outcome>,
}

/// The cores of a node that take part, and their loads.
struct Node<'a> {
    cores: Vec<&'a PollingCore>,
    /// Index of each core's sibling, if the sibling takes part.
    siblings: Vec<Option<usize>>,
    load: Vec<f64>,
    /// Sum of the squared forecast errors of each core's queues.
    doubt: Vec<f64>,
    /// For each queue, the index of its core; `None`: on another node or an isolated core.
    at: Vec<Option<usize>>,
}

/// A candidate step: queue `out` moves to core `to`, and in a swap queue `back` moves the other way.
#[derive(Clone, Copy)]
struct Step {
    out: usize,
    back: Option<usize>,
    to: usize,
    after: f64,
}

impl<'a> Node<'a> {
    fn new(numa: NumaId, cores: &'a [PollingCore], queues: &[Queue]) -> Node<'a> {
        let cores: Vec<&PollingCore> = cores.iter().filter(|s| s.core.numa == numa && !s.isolated).collect();
        let place: BTreeMap<CoreId, usize> = cores.iter().enumerate().map(|(i, s)| (s.core.id, i)).collect();
        let siblings = cores.iter().map(|s| place.get(&s.sibling?).copied()).collect();
        let at: Vec<Option<usize>> = queues.iter().map(|q| place.get(&q.owner).copied()).collect();
        let (mut load, mut doubt) = (vec![0.0; cores.len()], vec![0.0; cores.len()]);
        for (queue, at) in queues.iter().zip(&at) {
            let Some(at) = *at else { continue };
            load[at] += queue.load;
            doubt[at] += queue.doubt.powi(2);
        }
        Node { cores, siblings, load, doubt, at }
    }

    /// Load of a core including the load from its sibling.
    fn weight(&self, core: usize, change: impl Fn(usize) -> f64) -> f64 {
        let of = |s: usize| self.load[s] + SAFETY * self.doubt[s].sqrt() + change(s);
        let (own, other) = (of(core), self.siblings[core].map_or(0.0, of));
        own + SIBLING * own.min(other)
    }

    fn now(&self, core: usize) -> f64 {
        self.weight(core, |_| 0.0)
    }

    fn makespan(&self) -> f64 {
        (0..self.cores.len()).map(|s| self.now(s)).fold(0.0, f64::max)
    }

    /// Lower bound of the busiest core's load over all assignments.
    fn bound(&self, queues: &[Queue]) -> f64 {
        let largest = queues.iter().zip(&self.at).filter(|(_, at)| at.is_some()).map(|(q, _)| q.load);
        let capacity: f64 =
            self.siblings.iter().map(|s| if s.is_some() { 1.0 / (1.0 + SIBLING) } else { 1.0 }).sum();
        largest.fold(self.load.iter().sum::<f64>() / capacity.max(1.0), f64::max)
    }

    /// The highest load among the two cores and their siblings if load `d` moved from one to the other.
    fn after(&self, from: usize, to: usize, d: f64) -> f64 {
        let change = |core| match core {
            s if s == from => -d,
            s if s == to => d,
            _ => 0.0,
        };
        let weight = |core| self.weight(core, change);
        let of = |core: usize| self.siblings[core].map_or(0.0, weight);
        weight(from).max(weight(to)).max(of(from)).max(of(to)) + TIE * self.load[to]
    }

    /// Returns the step that relieves this core most, among those that gain enough.
    fn best(&self, hot: usize, queues: &[Queue], limits: &Limits, budget: usize) -> Option<Step> {
        let now = self.now(hot);
        let cost = if now > limits.full { limits.gain } else { limits.early };
        let dearer = limits.swap * cost;
        let mut best: Option<Step> = None;
        let mut consider = |step: Step, gain: f64| {
            // A swap must be clearly better than a single move.
            let rival = best.map_or(f64::MAX, |b| match (b.back, step.back) {
                (None, Some(_)) => b.after - dearer,
                (Some(_), None) => b.after + dearer,
                _ => b.after,
            });
            if now - step.after > gain && step.after < rival {
                best = Some(step);
            }
        };
        let movable = |i: usize| !queues[i].pinned;
        for out in (0..queues.len()).filter(|i| self.at[*i] == Some(hot) && movable(*i)) {
            let load = queues[out].load;
            for to in (0..self.cores.len()).filter(|to| *to != hot) {
                consider(Step { out, back: None, to, after: self.after(hot, to, load) }, cost);
            }
            if budget < 2 {
                continue;
            }
            for back in (0..queues.len()).filter(|i| movable(*i) && queues[*i].load < load) {
                let Some(to) = self.at[back].filter(|to| *to != hot) else { continue };
                let after = self.after(hot, to, load - queues[back].load);
                consider(Step { out, back: Some(back), to, after }, dearer);
            }
        }
        best
    }

    fn shift(&mut self, queue: usize, to: usize, queues: &[Queue], moves: &mut Vec<Move>) {
        let Some(from) = self.at[queue].replace(to) else { return };
        self.load[from] -= queues[queue].load;
        self.load[to] += queues[queue].load;
        let doubt = queues[queue].doubt.powi(2);
        self.doubt[from] = (self.doubt[from] - doubt).max(0.0);
        self.doubt[to] += doubt;
        let id = |core: usize| self.cores[core].core.id;
        moves.push(Move { queue, from: id(from), to: id(to) });
    }

    /// Moves queues away from a core until its load is below the limit.
    fn relieve(&mut self, hot: usize, queues: &[Queue], limits: &Limits, enough: f64, moves: &mut Vec<Move>) {
        while moves.len() < limits.moves && self.now(hot) > enough {
            let Some(step) = self.best(hot, queues, limits, limits.moves - moves.len()) else { return };
            self.shift(step.out, step.to, queues, moves);
            step.back.iter().for_each(|back| self.shift(*back, hot, queues, moves));
        }
    }

    /// The cores to be relieved, busiest first.
    fn due(&self, bound: f64, mut due: impl FnMut(Standing) -> bool) -> Vec<usize> {
        let standing = |s: usize| Standing { core: self.cores[s].core.id, load: self.now(s), bound };
        let mut hot: Vec<usize> = (0..self.cores.len()).filter(|s| due(standing(*s))).collect();
        hot.sort_by(|a, b| self.now(*b).total_cmp(&self.now(*a)));
        hot
    }
}

/// Plans the fewest moves that relieve the cores for which `due` returns true, as far as possible. `due` is called
/// once for each core.
pub fn plan(
    cores: &[PollingCore],
    queues: &[Queue],
    limits: &Limits,
    mut due: impl FnMut(Standing) -> bool,
) -> Plan {
    let mut plan = Plan::default();
    let mut nodes: Vec<NumaId> = cores.iter().filter(|s| !s.isolated).map(|s| s.core.numa).collect();
    nodes.sort();
    nodes.dedup();
    for numa in nodes {
        let mut node = Node::new(numa, cores, queues);
        let (before, bound) = (node.makespan(), node.bound(queues));
        // An overloaded core drops packets, so it is relieved down to its capacity even if the node's bound is close.
        let enough = (limits.enough * bound).min(bound.max(limits.full));
        let mut moves = Vec::new();
        for hot in node.due(bound, &mut due) {
            node.relieve(hot, queues, limits, enough, &mut moves);
        }
        plan.nodes.push(Outcome { numa, before, after: node.makespan(), bound, moves: moves.len() });
        plan.moves.append(&mut moves);
    }
    plan
}

#[cfg(test)]
mod tests;
