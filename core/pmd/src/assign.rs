//! Which rx queue is polled by which core.
//!
//! A queue that an administrator pinned goes to its core, which (unless told otherwise) then polls pinned queues only.
//! The others stay on the NUMA node of their port if it has a core for them, else they go to the next node that has one.
//!
//! * `roundrobin`: one core after the other, queues in the order of their ports.
//! * `cycles`: the busiest queue first; cores are gone through forth and back, so that the last of a round is first of
//!   the next.
//! * `group`: the busiest queue first, each to the core that has least to do.

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
    /// By the name that settings use.
    pub fn parse(name: &str) -> Option<Algorithm> {
        [Algorithm::RoundRobin, Algorithm::Cycles, Algorithm::Group].into_iter().find(|a| a.name() == name)
    }

    /// That name.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::RoundRobin => "roundrobin",
            Algorithm::Cycles => "cycles",
            Algorithm::Group => "group",
        }
    }
}

/// An rx queue that is to be polled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rxq {
    /// Name of its port, for messages.
    pub port: String,
    /// Its port.
    pub no: PortNo,
    /// Its number there.
    pub queue: QueueId,
    /// The node of its port's memory.
    pub numa: NumaId,
    /// Cycles that it took in the last minute.
    pub cycles: u64,
    /// The core that an administrator wants for it.
    pub pinned: Option<CoreId>,
}

/// Something worth a line in the log. Its text is what Open vSwitch says of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Something did not go as the administrator wanted.
    pub warning: bool,
    /// The line.
    pub text: String,
}

/// Who polls what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assignment {
    /// The core of each queue, in the order in which they were given; `None`: nobody polls it.
    pub cores: Vec<Option<CoreId>>,
    /// Cores that poll pinned queues only.
    pub isolated: BTreeSet<CoreId>,
    /// What is to be logged.
    pub notes: Vec<Note>,
    /// How much each core will have to do, by what its queues took.
    pub load: BTreeMap<CoreId, u64>,
    /// A queue that nobody pinned is polled from another node than its port's.
    pub cross_numa: bool,
}

/// Which core got a queue; `Display` says it as the log does.
#[derive(Clone, Copy, Debug)]
pub struct Placed<'a> {
    /// The queue.
    pub rxq: &'a Rxq,
    /// The algorithm: round robin does not look at cycles.
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

/// A core while queues are given out.
struct Seat {
    core: Core,
    load: u64,
    queues: usize,
    isolated: bool,
}

/// The cores of one node, and where the walk over them is.
struct Node {
    numa: NumaId,
    seats: Vec<Seat>,
    at: usize,
    up: bool,
}

impl Node {
    fn has_room(&self) -> bool {
        self.seats.iter().any(|s| !s.isolated)
    }

    /// The place of the next core of the walk. `back`: it turns at the ends, where it visits a core twice.
    fn step(&mut self, back: bool) -> usize {
        let at = self.at;
        match (self.up, at + 1 == self.seats.len()) {
            (true, false) => self.at += 1,
            (true, true) if back => self.up = false,
            (true, true) => self.at = 0,
            (false, _) if at == 0 => self.up = true,
            (false, _) => self.at -= 1,
        }
        at
    }

    fn pick(&mut self, algorithm: Algorithm, has_cycles: bool) -> Option<&mut Seat> {
        let at = match algorithm {
            Algorithm::Group => {
                let free = self.seats.iter().enumerate().filter(|(_, s)| !s.isolated);
                let weight = |s: &Seat| if has_cycles { s.load } else { s.queues as u64 };
                free.min_by_key(|(_, s)| weight(s)).map(|(i, _)| i)
            }
            _ => {
                let back = algorithm == Algorithm::Cycles;
                (0..self.seats.len() * 2).find_map(|_| {
                    let at = self.step(back);
                    (!self.seats[at].isolated).then_some(at)
                })
            }
        };
        self.seats.get_mut(at?)
    }
}

/// The seats of all nodes.
struct Room {
    nodes: Vec<Node>,
    last_foreign: Option<usize>,
}

impl Room {
    fn new(cores: &[Core]) -> Room {
        let mut by_numa: BTreeMap<NumaId, Vec<Seat>> = BTreeMap::new();
        for core in cores {
            let seat = Seat { core: *core, load: 0, queues: 0, isolated: false };
            by_numa.entry(core.numa).or_default().push(seat);
        }
        let node = |(numa, seats)| Node { numa, seats, at: 0, up: true };
        Room { nodes: by_numa.into_iter().map(node).collect(), last_foreign: None }
    }

    fn seat_of(&mut self, core: CoreId) -> Option<&mut Seat> {
        self.nodes.iter_mut().flat_map(|n| &mut n.seats).find(|s| s.core.id == core)
    }

    /// The node of the queue's port, or the next one that has a core to give.
    fn node_for(&mut self, numa: NumaId) -> Option<&mut Node> {
        let local = self.nodes.iter().position(|n| n.numa == numa && n.has_room());
        let at = local.or_else(|| {
            let n = self.nodes.len();
            let first = self.last_foreign.map_or(0, |last| last + 1);
            let found = (first..first + n).map(|i| i % n).find(|i| self.nodes[*i].has_room());
            self.last_foreign = found.or(self.last_foreign);
            found
        });
        self.nodes.get_mut(at?)
    }

    /// What has come of it, core by core.
    fn settle(&self, out: &mut Assignment) {
        for seat in self.nodes.iter().flat_map(|n| &n.seats) {
            out.load.insert(seat.core.id, seat.load);
            if seat.isolated {
                out.isolated.insert(seat.core.id);
            }
        }
    }
}

/// Gives every queue to one of the cores. `isolate`: a core with a pinned queue polls no others.
pub fn assign(cores: &[Core], rxqs: &[Rxq], algorithm: Algorithm, isolate: bool) -> Assignment {
    let mut room = Room::new(cores);
    let mut out = Assignment { cores: vec![None; rxqs.len()], ..Assignment::default() };
    let mut rest = pin_all(&mut room, rxqs, algorithm, isolate, &mut out);
    if algorithm != Algorithm::RoundRobin {
        rest.sort_by_key(|i| (std::cmp::Reverse(rxqs[*i].cycles), rxqs[*i].no, rxqs[*i].queue));
    }
    if !rest.is_empty() {
        let text = format!("Performing pmd to rx queue assignment using {} algorithm.", algorithm.name());
        out.notes.push(Note { warning: false, text });
    }
    for i in rest {
        out.cores[i] = place(&mut room, &rxqs[i], algorithm, &mut out);
    }
    room.settle(&mut out);
    out
}

/// Gives queues that an administrator pinned to their cores; the others are left.
fn pin_all(
    room: &mut Room,
    rxqs: &[Rxq],
    algorithm: Algorithm,
    isolate: bool,
    out: &mut Assignment,
) -> Vec<usize> {
    let mut rest = Vec::new();
    for (i, rxq) in rxqs.iter().enumerate() {
        match rxq.pinned {
            Some(core) if pin(room, rxq, core, algorithm, isolate, &mut out.notes) => {
                out.cores[i] = Some(core)
            }
            _ => rest.push(i),
        }
    }
    rest
}

fn pin(
    room: &mut Room,
    rxq: &Rxq,
    core: CoreId,
    algorithm: Algorithm,
    isolate: bool,
    notes: &mut Vec<Note>,
) -> bool {
    let id = core.0;
    let Some(seat) = room.seat_of(core) else {
        let text = format!(
            "Core {id:2} cannot be pinned with port '{}' rx queue {}. Use pmd-cpu-mask to enable a pmd on core \
             {id}. An alternative core will be assigned.",
            rxq.port, rxq.queue.0
        );
        notes.push(Note { warning: true, text });
        return false;
    };
    seat.isolated |= isolate;
    seat.load += rxq.cycles;
    seat.queues += 1;
    let (numa, placed) = (seat.core.numa.0, Placed { rxq, algorithm });
    notes.push(Note {
        warning: false,
        text: format!("Core {id:2} on numa node {numa} is pinned with {placed}"),
    });
    true
}

fn place(room: &mut Room, rxq: &Rxq, algorithm: Algorithm, out: &mut Assignment) -> Option<CoreId> {
    let placed = Placed { rxq, algorithm };
    // Round robin does not measure: what was measured is no reason to count queues instead.
    let has_cycles = algorithm != Algorithm::RoundRobin && rxq.cycles != 0;
    let found = room.node_for(rxq.numa).and_then(|node| node.pick(algorithm, has_cycles));
    let Some(seat) = found else {
        out.notes.push(nobody(&placed));
        return None;
    };
    seat.load += rxq.cycles;
    seat.queues += 1;
    let core = seat.core;
    out.note_place(&placed, core);
    Some(core.id)
}

fn nobody(placed: &Placed<'_>) -> Note {
    let text =
        format!("No non-isolated pmd on any numa available for {placed}. This rx queue will not be polled.");
    Note { warning: true, text }
}

impl Assignment {
    /// A queue that nobody pinned goes there.
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
