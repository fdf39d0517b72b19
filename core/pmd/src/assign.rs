//! Rxq assignment: which core polls which rx queue.
//!
//! A pinned queue is assigned to the core that the administrator named. That core is then isolated: it polls pinned
//! queues only, unless `pmd-rxq-isolate` is off. The other queues are assigned to cores of their port's NUMA node if
//! that node has a core that is not isolated, otherwise to the next node that has one. Algorithms:
//!
//! * `roundrobin`: queues in the order of their ports, to one core after the other.
//! * `cycles`: the busiest queue first, to the cores in ascending and descending order alternately. So the last core of
//!   one direction is the first of the next.
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

/// A log message, with the text of Open vSwitch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Log level: a warning if the configuration could not be applied as it is, otherwise information.
    pub warning: bool,
    /// The text of the log line.
    pub text: String,
}

/// The result of an assignment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assignment {
    /// The core of each queue, in the order of the slice `rxqs`; `None`: no core polls the queue.
    pub cores: Vec<Option<CoreId>>,
    /// Cores that poll pinned queues only.
    pub isolated: BTreeSet<CoreId>,
    /// Messages to log.
    pub notes: Vec<Note>,
    /// Expected load of each core: the sum of the measured cycles of its queues.
    pub load: BTreeMap<CoreId, u64>,
    /// At least one queue that is not pinned is polled by a core of another NUMA node than its port's.
    pub cross_numa: bool,
}

/// Formats a queue for the log (`Display`).
#[derive(Clone, Copy, Debug)]
pub struct QueueText<'a> {
    /// The queue.
    pub rxq: &'a Rxq,
    /// The algorithm. `roundrobin` does not use cycles, so no cycles are printed with it.
    pub algorithm: Algorithm,
}

impl fmt::Display for QueueText<'_> {
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

/// The cores of one NUMA node, and the position of the algorithm among them.
struct Node {
    numa: NumaId,
    loads: Vec<CoreLoad>,
    /// Index of the next core.
    at: usize,
    /// The index ascends.
    up: bool,
}

impl Node {
    /// Whether a core of the node is not isolated.
    fn has_core(&self) -> bool {
        self.loads.iter().any(|s| !s.isolated)
    }

    /// Returns the index of the next core. `reverse`: at the first and the last core the order reverses, and that core is
    /// returned twice.
    fn next_core(&mut self, reverse: bool) -> usize {
        let at = self.at;
        match (self.up, at + 1 == self.loads.len()) {
            (true, false) => self.at += 1,
            (true, true) if reverse => self.up = false,
            (true, true) => self.at = 0,
            (false, _) if at == 0 => self.up = true,
            (false, _) => self.at -= 1,
        }
        at
    }

    /// Selects the core for the next queue. `has_cycles`: the queue's cycles were measured.
    fn pick_core(&mut self, algorithm: Algorithm, has_cycles: bool) -> Option<&mut CoreLoad> {
        let at = match algorithm {
            Algorithm::Group => {
                let free = self.loads.iter().enumerate().filter(|(_, s)| !s.isolated);
                let weight = |s: &CoreLoad| if has_cycles { s.cycles } else { s.queues as u64 };
                free.min_by_key(|(_, s)| weight(s)).map(|(i, _)| i)
            }
            _ => {
                let reverse = algorithm == Algorithm::Cycles;
                (0..self.loads.len() * 2).find_map(|_| {
                    let at = self.next_core(reverse);
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
    /// Index of the node that was last selected for a queue whose own node has no core.
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

    /// Returns the node of the queue's port if it has a core that is not isolated, otherwise the next node that has one.
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

/// Assigns every queue to one of the cores. `isolate`: a core with a pinned queue polls pinned queues only.
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

/// Assigns a queue to the core to which it is pinned. Returns false if that core has no PMD thread.
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
    let (numa, queue) = (load.core.numa.0, QueueText { rxq, algorithm });
    notes.push(Note {
        warning: false,
        text: format!("Core {id:2} on numa node {numa} is pinned with {queue}"),
    });
    true
}

/// Assigns a queue that is not pinned.
fn place(loads: &mut CoreLoads, rxq: &Rxq, algorithm: Algorithm, out: &mut Assignment) -> Option<CoreId> {
    let queue = QueueText { rxq, algorithm };
    // `roundrobin` must give the same result whether cycles were measured or not.
    let has_cycles = algorithm != Algorithm::RoundRobin && rxq.cycles != 0;
    let found = loads.node_for(rxq.numa).and_then(|node| node.pick_core(algorithm, has_cycles));
    let Some(load) = found else {
        out.notes.push(not_polled(&queue));
        return None;
    };
    load.cycles += rxq.cycles;
    load.queues += 1;
    let core = load.core;
    out.note_place(&queue, core);
    Some(core.id)
}

fn not_polled(queue: &QueueText<'_>) -> Note {
    let text =
        format!("No non-isolated pmd on any numa available for {queue}. This rx queue will not be polled.");
    Note { warning: true, text }
}

impl Assignment {
    /// Adds the log messages for the assignment of a queue that is not pinned.
    fn note_place(&mut self, queue: &QueueText<'_>, core: Core) {
        let (rxq, id, numa) = (queue.rxq, core.id.0, core.numa);
        if numa != rxq.numa {
            self.cross_numa = true;
            let text = format!(
                "There's no available (non-isolated) pmd thread on numa node {}. Port '{}' rx queue {} will be \
                 assigned to a pmd on numa node {}. This may lead to reduced performance.",
                rxq.numa.0, rxq.port, rxq.queue.0, numa.0
            );
            self.notes.push(Note { warning: false, text });
        }
        let text = format!("Core {id:2} on numa node {} assigned {queue}.", numa.0);
        self.notes.push(Note { warning: false, text });
    }
}

#[cfg(test)]
mod tests;
