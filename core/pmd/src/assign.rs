//! Rxq assignment: which core polls which rx queue.
//!
//! A queue that an administrator pinned goes to its core, which then polls pinned queues only, unless
//! `pmd-rxq-isolate` is off. The other queues stay on the NUMA node of their port if that node has a core for them,
//! otherwise they go to the next node that has one.
//!
//! * `roundrobin`: one core after the other, queues in the order of their ports.
//! * `cycles`: the busiest queue first; the cores are walked forward and backward alternately, so the last core of
//!   one pass is the first of the next.
//! * `group`: the busiest queue first, each to the core with the least load.

pub mod keep;

use crate::cores::Core;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use units::{CoreId, NumaId, PortNo, QueueId};

/// `pmd-rxq-assign`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Algorithm {
    RoundRobin,
    #[default]
    Cycles,
    Group,
}

impl Algorithm {
    /// Parses the name that `pmd-rxq-assign` uses.
    pub fn parse(name: &str) -> Option<Algorithm> {
        [Algorithm::RoundRobin, Algorithm::Cycles, Algorithm::Group].into_iter().find(|a| a.name() == name)
    }

    /// The name that `pmd-rxq-assign` uses.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::RoundRobin => "roundrobin",
            Algorithm::Cycles => "cycles",
            Algorithm::Group => "group",
        }
    }
}

/// An rx queue to be polled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rxq {
    /// Name of the queue's port, for messages.
    pub port: String,
    /// Port number.
    pub no: PortNo,
    /// Queue number within the port.
    pub queue: QueueId,
    /// NUMA node of the port's memory.
    pub numa: NumaId,
    /// Cycles spent on the queue in the last minute.
    pub cycles: u64,
    /// The core to which an administrator pinned the queue.
    pub pinned: Option<CoreId>,
}

/// A message for the log. The text is that of Open vSwitch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// A warning: something did not go as the administrator configured it.
    pub warning: bool,
    /// The text of the log line.
    pub text: String,
}

/// The result of an assignment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assignment {
    /// The core of each queue, in the order in which the queues were given; `None`: the queue is not polled.
    pub cores: Vec<Option<CoreId>>,
    /// Cores that poll pinned queues only.
    pub isolated: BTreeSet<CoreId>,
    /// Messages to log.
    pub notes: Vec<Note>,
    /// Expected load of each core: the sum of the measured cycles of its queues.
    pub load: BTreeMap<CoreId, u64>,
    /// At least one queue that is not pinned is polled from another NUMA node than its port's.
    pub cross_numa: bool,
}

/// A queue with its algorithm; `Display` formats it for the log.
#[derive(Clone, Copy, Debug)]
pub struct Placed<'a> {
    /// The queue.
    pub rxq: &'a Rxq,
    /// The algorithm: `roundrobin` does not use cycles, so they are not printed.
    pub algorithm: Algorithm,
}

impl fmt::Display for Placed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "port '{}' rx queue {}", self.rxq.port, self.rxq.queue.0)?;
        match self.algorithm {
            Algorithm::RoundRobin => Ok(()),
            _ => write!(f, " (measured processing cycles {})", self.rxq.cycles),
        }
    }
}

/// The load of one core during an assignment.
struct CoreLoad {
    core: Core,
    cycles: u64,
    queues: usize,
    isolated: bool,
}

/// The cores of one NUMA node, and the position of the walk over them.
struct Node {
    numa: NumaId,
    loads: Vec<CoreLoad>,
    at: usize,
    up: bool,
}

impl Node {
    fn has_core(&self) -> bool {
        self.loads.iter().any(|s| !s.isolated)
    }

    /// Returns the index of the next core of the walk. `back`: at either end the walk reverses and visits that core
    /// twice.
    fn step(&mut self, back: bool) -> usize {
        let at = self.at;
        match (self.up, at + 1 == self.loads.len()) {
            (true, false) => self.at += 1,
            (true, true) if back => self.up = false,
            (true, true) => self.at = 0,
            (false, _) if at == 0 => self.up = true,
            (false, _) => self.at -= 1,
        }
        at
    }

    fn pick(&mut self, algorithm: Algorithm, has_cycles: bool) -> Option<&mut CoreLoad> {
        let at = match algorithm {
            Algorithm::Group => {
                let free = self.loads.iter().enumerate().filter(|(_, s)| !s.isolated);
                let weight = |s: &CoreLoad| if has_cycles { s.cycles } else { s.queues as u64 };
                free.min_by_key(|(_, s)| weight(s)).map(|(i, _)| i)
            }
            _ => {
                let back = algorithm == Algorithm::Cycles;
                (0..self.loads.len() * 2).find_map(|_| {
                    let at = self.step(back);
                    (!self.loads[at].isolated).then_some(at)
                })
            }
        };
        self.loads.get_mut(at?)
    }
}

/// The core loads of all NUMA nodes.
struct CoreLoads {
    nodes: Vec<Node>,
    last_foreign: Option<usize>,
}

impl CoreLoads {
    fn new(cores: &[Core]) -> CoreLoads {
        let mut by_numa: BTreeMap<NumaId, Vec<CoreLoad>> = BTreeMap::new();
        for core in cores {
            let load = CoreLoad { core: *core, cycles: 0, queues: 0, isolated: false };
            by_numa.entry(core.numa).or_default().push(load);
        }
        let node = |(numa, loads)| Node { numa, loads, at: 0, up: true };
        CoreLoads { nodes: by_numa.into_iter().map(node).collect(), last_foreign: None }
    }

    fn load_of(&mut self, core: CoreId) -> Option<&mut CoreLoad> {
        self.nodes.iter_mut().flat_map(|n| &mut n.loads).find(|s| s.core.id == core)
    }

    /// Returns the node of the queue's port, or else the next node with a core that is not isolated.
    fn node_for(&mut self, numa: NumaId) -> Option<&mut Node> {
        let local = self.nodes.iter().position(|n| n.numa == numa && n.has_core());
        let at = local.or_else(|| {
            let n = self.nodes.len();
            let first = self.last_foreign.map_or(0, |last| last + 1);
            let found = (first..first + n).map(|i| i % n).find(|i| self.nodes[*i].has_core());
            self.last_foreign = found.or(self.last_foreign);
            found
        });
        self.nodes.get_mut(at?)
    }

    /// Writes the load and isolation of each core into the result.
    fn finish(&self, out: &mut Assignment) {
        for load in self.nodes.iter().flat_map(|n| &n.loads) {
            out.load.insert(load.core.id, load.cycles);
            if load.isolated {
                out.isolated.insert(load.core.id);
            }
        }
    }
}

/// Assigns every queue to one of the cores. `isolate`: a core with a pinned queue polls no other queues.
pub fn assign(cores: &[Core], rxqs: &[Rxq], algorithm: Algorithm, isolate: bool) -> Assignment {
    let mut loads = CoreLoads::new(cores);
    let mut out = Assignment { cores: vec![None; rxqs.len()], ..Assignment::default() };
    let mut rest = pin_all(&mut loads, rxqs, algorithm, isolate, &mut out);
    if algorithm != Algorithm::RoundRobin {
        rest.sort_by_key(|i| (std::cmp::Reverse(rxqs[*i].cycles), rxqs[*i].no, rxqs[*i].queue));
    }
    if !rest.is_empty() {
        let text = format!("Performing pmd to rx queue assignment using {} algorithm.", algorithm.name());
        out.notes.push(Note { warning: false, text });
    }
    for i in rest {
        out.cores[i] = place(&mut loads, &rxqs[i], algorithm, &mut out);
    }
    loads.finish(&mut out);
    out
}

/// Assigns the pinned queues to their cores and returns the indices of the remaining queues.
fn pin_all(
    loads: &mut CoreLoads,
    rxqs: &[Rxq],
    algorithm: Algorithm,
    isolate: bool,
    out: &mut Assignment,
) -> Vec<usize> {
    let mut rest = Vec::new();
    for (i, rxq) in rxqs.iter().enumerate() {
        match rxq.pinned {
            Some(core) if pin(loads, rxq, core, algorithm, isolate, &mut out.notes) => {
                out.cores[i] = Some(core)
            }
            _ => rest.push(i),
        }
    }
    rest
}

fn pin(
    loads: &mut CoreLoads,
    rxq: &Rxq,
    core: CoreId,
    algorithm: Algorithm,
    isolate: bool,
    notes: &mut Vec<Note>,
) -> bool {
    let id = core.0;
    let Some(load) = loads.load_of(core) else {
        let text = format!(
            "Core {id:2} cannot be pinned with port '{}' rx queue {}. Use pmd-cpu-mask to enable a pmd on core \
             {id}. An alternative core will be assigned.",
            rxq.port, rxq.queue.0
        );
        notes.push(Note { warning: true, text });
        return false;
    };
    load.isolated |= isolate;
    load.cycles += rxq.cycles;
    load.queues += 1;
    let (numa, placed) = (load.core.numa.0, Placed { rxq, algorithm });
    notes.push(Note {
        warning: false,
        text: format!("Core {id:2} on numa node {numa} is pinned with {placed}"),
    });
    true
}

fn place(loads: &mut CoreLoads, rxq: &Rxq, algorithm: Algorithm, out: &mut Assignment) -> Option<CoreId> {
    let placed = Placed { rxq, algorithm };
    // `roundrobin` does not use cycles, so measured cycles must not change what it does.
    let has_cycles = algorithm != Algorithm::RoundRobin && rxq.cycles != 0;
    let found = loads.node_for(rxq.numa).and_then(|node| node.pick(algorithm, has_cycles));
    let Some(load) = found else {
        out.notes.push(not_polled(&placed));
        return None;
    };
    load.cycles += rxq.cycles;
    load.queues += 1;
    let core = load.core;
    out.note_place(&placed, core);
    Some(core.id)
}

fn not_polled(placed: &Placed<'_>) -> Note {
    let text =
        format!("No non-isolated pmd on any numa available for {placed}. This rx queue will not be polled.");
    Note { warning: true, text }
}

impl Assignment {
    /// Records that a queue which is not pinned was assigned to this core.
    fn note_place(&mut self, placed: &Placed<'_>, core: Core) {
        let (rxq, id, numa) = (placed.rxq, core.id.0, core.numa);
        if numa != rxq.numa {
            self.cross_numa = true;
            let text = format!(
                "There's no available (non-isolated) pmd thread on numa node {}. Port '{}' rx queue {} will be \
                 assigned to a pmd on numa node {}. This may lead to reduced performance.",
                rxq.numa.0, rxq.port, rxq.queue.0, numa.0
            );
            self.notes.push(Note { warning: false, text });
        }
        let text = format!("Core {id:2} on numa node {} assigned {placed}.", numa.0);
        self.notes.push(Note { warning: false, text });
    }
}

#[cfg(test)]
mod tests;
