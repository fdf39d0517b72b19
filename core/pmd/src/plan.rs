//! Which queues to move so that no core has too much to do: as few as possible.
//!
//! Each NUMA node is planned for itself: a queue never leaves the node that polls it. Of the cores of a node those that
//! poll pinned queues only take no part, and pinned queues stay where they are. Two hyperthreads of a processor core
//! slow each other down: what one has to do weighs on the other.
//!
//! The plan is found step by step. Of a core that is to be relieved, one queue goes to another core, or changes places
//! with a smaller one, whichever leaves the busier of the two with least. It ends as soon as these cores have enough.
//! Which cores are to be relieved, and when, is the caller's to say: see [`crate::predictive`].

use crate::cores::Core;
use std::collections::BTreeMap;
use units::{CoreId, NumaId};

/// What a hyperthread loses by a neighbour that is as busy: a pair does the work of 1.3 cores.
const SIBLING: f64 = 2.0 / 1.3 - 1.0;

/// Forecasts of a core's queues are off each for itself: so much of what that makes together is added to what it has to do.
const SAFETY: f64 = 0.25;

/// Of two cores that would do, the one with less to do is better by this.
const TIE: f64 = 1e-6;

/// A core that polls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seat {
    /// Which.
    pub core: Core,
    /// The other hyperthread of its processor core.
    pub sibling: Option<CoreId>,
    /// It polls pinned queues only.
    pub isolated: bool,
}

/// A queue and what it wants.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Queue {
    /// Who polls it.
    pub owner: CoreId,
    /// It may not move.
    pub pinned: bool,
    /// Its forecast, in cores.
    pub load: f64,
    /// How far off such forecasts were.
    pub doubt: f64,
}

/// How much to do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// A core that has more to do does not get it done.
    pub full: f64,
    /// A core has enough relief when it has less than so many times what is the least possible.
    pub enough: f64,
    /// So many moves at most.
    pub moves: usize,
    /// What a move must gain, in cores, where a core is full.
    pub gain: f64,
    /// What it must gain elsewhere.
    pub early: f64,
    /// What two queues that change places must gain, in moves.
    pub swap: f64,
}

/// How a core stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Standing {
    /// Which.
    pub core: CoreId,
    /// What it will have to do, its sibling's work and doubt included.
    pub load: f64,
    /// No assignment can bring the busiest core of its node below this.
    pub bound: f64,
}

/// A queue changes hands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Move {
    /// The queue's place in what was given.
    pub queue: usize,
    /// Who has it.
    pub from: CoreId,
    /// Who is to have it.
    pub to: CoreId,
}

/// The state of a node before and after.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// The node.
    pub numa: NumaId,
    /// What its busiest core would have to do.
    pub before: f64,
    /// The same after the moves.
    pub after: f64,
    /// No assignment can bring that below this.
    pub bound: f64,
    /// How many moves.
    pub moves: usize,
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// In the order in which they were found.
    pub moves: Vec<Move>,
    /// Of each node with cores that may be relieved.
    pub nodes: Vec<Outcome>,
}

/// The cores of a node that take part, and what they have to do.
struct Node<'a> {
    seats: Vec<&'a Seat>,
    /// The place of each one's sibling, if that takes part.
    siblings: Vec<Option<usize>>,
    load: Vec<f64>,
    /// The squares of their queues' doubts.
    doubt: Vec<f64>,
    /// By queue: where it is. `None`: elsewhere.
    at: Vec<Option<usize>>,
}

/// A step that could be taken: these queues change places with nothing, or with each other.
#[derive(Clone, Copy)]
struct Step {
    out: usize,
    back: Option<usize>,
    to: usize,
    after: f64,
}

impl<'a> Node<'a> {
    fn new(numa: NumaId, seats: &'a [Seat], queues: &[Queue]) -> Node<'a> {
        let seats: Vec<&Seat> = seats.iter().filter(|s| s.core.numa == numa && !s.isolated).collect();
        let place: BTreeMap<CoreId, usize> = seats.iter().enumerate().map(|(i, s)| (s.core.id, i)).collect();
        let siblings = seats.iter().map(|s| place.get(&s.sibling?).copied()).collect();
        let at: Vec<Option<usize>> = queues.iter().map(|q| place.get(&q.owner).copied()).collect();
        let (mut load, mut doubt) = (vec![0.0; seats.len()], vec![0.0; seats.len()]);
        for (queue, at) in queues.iter().zip(&at) {
            let Some(at) = *at else { continue };
            load[at] += queue.load;
            doubt[at] += queue.doubt.powi(2);
        }
        Node { seats, siblings, load, doubt, at }
    }

    /// What a core has to do, its sibling's work included.
    fn weight(&self, seat: usize, change: impl Fn(usize) -> f64) -> f64 {
        let of = |s: usize| self.load[s] + SAFETY * self.doubt[s].sqrt() + change(s);
        let (own, other) = (of(seat), self.siblings[seat].map_or(0.0, of));
        own + SIBLING * own.min(other)
    }

    fn now(&self, seat: usize) -> f64 {
        self.weight(seat, |_| 0.0)
    }

    fn makespan(&self) -> f64 {
        (0..self.seats.len()).map(|s| self.now(s)).fold(0.0, f64::max)
    }

    /// What the busiest core has to do at least, however queues are given out.
    fn bound(&self, queues: &[Queue]) -> f64 {
        let largest = queues.iter().zip(&self.at).filter(|(_, at)| at.is_some()).map(|(q, _)| q.load);
        let capacity: f64 =
            self.siblings.iter().map(|s| if s.is_some() { 1.0 / (1.0 + SIBLING) } else { 1.0 }).sum();
        largest.fold(self.load.iter().sum::<f64>() / capacity.max(1.0), f64::max)
    }

    /// The busier of the two cores, and of their siblings, if `d` went from one to the other.
    fn after(&self, from: usize, to: usize, d: f64) -> f64 {
        let change = |seat| match seat {
            s if s == from => -d,
            s if s == to => d,
            _ => 0.0,
        };
        let weight = |seat| self.weight(seat, change);
        let of = |seat: usize| self.siblings[seat].map_or(0.0, weight);
        weight(from).max(weight(to)).max(of(from)).max(of(to)) + TIE * self.load[to]
    }

    /// The step that relieves this core most, of those that gain enough.
    fn best(&self, hot: usize, queues: &[Queue], limits: &Limits, budget: usize) -> Option<Step> {
        let now = self.now(hot);
        let cost = if now > limits.full { limits.gain } else { limits.early };
        let dearer = limits.swap * cost;
        let mut best: Option<Step> = None;
        let mut consider = |step: Step, gain: f64| {
            // A swap must beat a single move clearly.
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
            for to in (0..self.seats.len()).filter(|to| *to != hot) {
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
        let id = |seat: usize| self.seats[seat].core.id;
        moves.push(Move { queue, from: id(from), to: id(to) });
    }

    /// Relieves a core until it has enough.
    fn relieve(&mut self, hot: usize, queues: &[Queue], limits: &Limits, enough: f64, moves: &mut Vec<Move>) {
        while moves.len() < limits.moves && self.now(hot) > enough {
            let Some(step) = self.best(hot, queues, limits, limits.moves - moves.len()) else { return };
            self.shift(step.out, step.to, queues, moves);
            step.back.iter().for_each(|back| self.shift(*back, hot, queues, moves));
        }
    }

    /// The cores that are to be relieved, the busiest first.
    fn due(&self, bound: f64, mut due: impl FnMut(Standing) -> bool) -> Vec<usize> {
        let standing = |s: usize| Standing { core: self.seats[s].core.id, load: self.now(s), bound };
        let mut hot: Vec<usize> = (0..self.seats.len()).filter(|s| due(standing(*s))).collect();
        hot.sort_by(|a, b| self.now(*b).total_cmp(&self.now(*a)));
        hot
    }
}

/// The fewest moves that relieve the cores that are `due`, as far as there are any. `due` is asked once for each core.
pub fn plan(
    seats: &[Seat],
    queues: &[Queue],
    limits: &Limits,
    mut due: impl FnMut(Standing) -> bool,
) -> Plan {
    let mut plan = Plan::default();
    let mut nodes: Vec<NumaId> = seats.iter().filter(|s| !s.isolated).map(|s| s.core.numa).collect();
    nodes.sort();
    nodes.dedup();
    for numa in nodes {
        let mut node = Node::new(numa, seats, queues);
        let (before, bound) = (node.makespan(), node.bound(queues));
        // A core that is full loses what is more, however little.
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
