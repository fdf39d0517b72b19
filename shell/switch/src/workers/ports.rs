//! The ports of a datapath and where their rx queues are, as the main thread knows them.

use crate::cycles;
use crate::workers::desk::{Key, Travelling};
use datapath::{Rxq, RxqLoad};
use netdev::device::RxHandle;
use pmd::History;
use pmd::forecast::{Counted, Forecast};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use units::{CoreId, NumaId, PortNo, QueueId, WorkerId};

/// What a worker has to know of a port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolledPort {
    /// Its name, for messages and tables.
    pub name: String,
    /// Its memory's node.
    pub numa: NumaId,
    /// Poll threads poll it; else the worker of kernel ports does.
    pub is_pmd: bool,
}

/// Where a queue is, when all that was ordered has been done.
pub(super) enum Home {
    /// Nobody has it yet.
    Here(Box<Travelling>),
    /// A worker has it.
    At(WorkerId),
}

struct Queue {
    home: Home,
    load: Arc<RxqLoad>,
    /// Who had the queue of its number before the port's queues were renewed.
    before: Option<WorkerId>,
    history: History,
    /// Cycles that passed while `history` was counted.
    elapsed: History,
    forecast: Forecast,
}

/// What outlives a queue when its port's queues are renewed.
#[derive(Default)]
struct Past {
    owner: Option<WorkerId>,
    history: History,
    elapsed: History,
    forecast: Forecast,
}

impl Past {
    fn of(queue: Queue) -> Past {
        let owner = queue.owner();
        Past { owner, history: queue.history, elapsed: queue.elapsed, forecast: queue.forecast }
    }
}

impl Queue {
    fn new(rxq: Rxq, fd: Option<Arc<OwnedFd>>, past: Option<Past>) -> Queue {
        let load = rxq.load();
        let home = Home::Here(Box::new(Travelling { rxq, fd, polled: true }));
        let Past { owner: before, mut history, mut elapsed, mut forecast } = past.unwrap_or_default();
        history.go_on(load.cycles());
        elapsed.go_on(cycles::now());
        forecast.go_on();
        Queue { home, load, before, history, elapsed, forecast }
    }

    /// Who has it, or had it last.
    fn owner(&self) -> Option<WorkerId> {
        match self.home {
            Home::Here(_) => self.before,
            Home::At(worker) => Some(worker),
        }
    }
}

struct Port {
    about: PolledPort,
    affinity: BTreeMap<QueueId, CoreId>,
    queues: Vec<Queue>,
    /// Of the queues that were taken back, until there are new ones.
    past: Vec<Past>,
    /// Packets that its device dropped since nobody took them.
    missed: u64,
}

/// A queue, for tables.
#[derive(Clone, Copy, Debug)]
pub struct RxqView<'a> {
    /// Its port.
    pub no: PortNo,
    /// Name of its port.
    pub port: &'a str,
    /// Its number there.
    pub queue: QueueId,
    history: &'a History,
    elapsed: &'a History,
    /// What was counted of it, ever.
    pub load: &'a RxqLoad,
    /// What it is forecast to want.
    pub forecast: &'a Forecast,
}

impl RxqView<'_> {
    /// Cycles that its packets took in the last `intervals` intervals and since then, and how many passed meanwhile. A queue
    /// that is younger is measured from its beginning.
    pub fn usage(&self, intervals: usize) -> (u64, u64) {
        let (used, passed) = (self.load.cycles(), cycles::now());
        (self.history.recent(intervals, used), self.elapsed.recent(intervals, passed))
    }
}

/// What a queue is forecast to want.
pub(super) struct Forecasted<'a> {
    pub(super) key: Key,
    /// Name of its port.
    pub(super) port: &'a str,
    /// How many queues the port has.
    pub(super) queues: usize,
    /// An administrator said which core polls it.
    pub(super) pinned: bool,
    pub(super) owner: Option<WorkerId>,
    pub(super) forecast: &'a Forecast,
}

/// See the module.
#[derive(Default)]
pub(super) struct Ports {
    by_no: BTreeMap<PortNo, Port>,
}

fn number(i: usize) -> QueueId {
    QueueId(i as u16)
}

impl Ports {
    pub(super) fn add(&mut self, no: PortNo, about: PolledPort, handles: Vec<RxHandle>) {
        // Pinned queues stay pinned when a port's queues are renewed, and what they did is remembered.
        let old = self.by_no.remove(&no);
        let (affinity, past) = old.map(|p| (p.affinity, p.past)).unwrap_or_default();
        let mut past = past.into_iter();
        let queue = |(i, handle): (usize, RxHandle)| {
            Queue::new(Rxq::new(no, number(i), handle.queue), handle.poll_fd, past.next())
        };
        let queues = handles.into_iter().enumerate().map(queue).collect();
        self.by_no.insert(no, Port { about, affinity, queues, past: Vec::new(), missed: 0 });
    }

    /// Whether that changed anything.
    pub(super) fn pin(&mut self, no: PortNo, affinity: BTreeMap<QueueId, CoreId>) -> bool {
        match self.by_no.get_mut(&no) {
            Some(port) if port.affinity != affinity => {
                port.affinity = affinity;
                port.about.is_pmd
            }
            _ => false,
        }
    }

    /// A port's memory is on that node. Whether that changed anything.
    pub(super) fn set_numa(&mut self, no: PortNo, numa: NumaId) -> bool {
        match self.by_no.get_mut(&no) {
            Some(port) if port.about.numa != numa => {
                port.about.numa = numa;
                port.about.is_pmd
            }
            _ => false,
        }
    }

    /// Whether poll threads are concerned.
    pub(super) fn remove(&mut self, no: PortNo) -> bool {
        self.by_no.remove(&no).is_some_and(|p| p.about.is_pmd)
    }

    /// Its queues are gone; it is there still.
    pub(super) fn clear(&mut self, no: PortNo) {
        if let Some(port) = self.by_no.get_mut(&no) {
            port.past = std::mem::take(&mut port.queues).into_iter().map(Past::of).collect();
        }
    }

    pub(super) fn numbers(&self) -> Vec<PortNo> {
        self.by_no.keys().copied().collect()
    }

    pub(super) fn any_polled(&self) -> bool {
        self.by_no.values().any(|p| p.about.is_pmd)
    }

    /// The queues of a port, and who has them.
    pub(super) fn queues_of(&self, no: PortNo) -> impl Iterator<Item = (QueueId, Option<WorkerId>)> {
        let owner = |q: &Queue| match q.home {
            Home::Here(_) => None,
            Home::At(worker) => Some(worker),
        };
        let queues = self.by_no.get(&no).into_iter().flat_map(|p| &p.queues);
        queues.enumerate().map(move |(i, q)| (number(i), owner(q)))
    }

    /// Who has a queue.
    pub(super) fn owner(&self, (no, id): Key) -> Option<WorkerId> {
        self.queues_of(no).nth(usize::from(id.0)).and_then(|(_, owner)| owner)
    }

    pub(super) fn home_mut(&mut self, (no, id): Key) -> Option<&mut Home> {
        self.by_no.get_mut(&no)?.queues.get_mut(usize::from(id.0)).map(|q| &mut q.home)
    }

    /// The queues that poll threads are to poll.
    pub(super) fn polled(&self) -> Vec<pmd::Rxq> {
        let ports = self.by_no.iter().filter(|(_, p)| p.about.is_pmd);
        ports
            .flat_map(|(no, port)| {
                port.queues.iter().enumerate().map(|(i, q)| pmd::Rxq {
                    port: port.about.name.clone(),
                    no: *no,
                    queue: number(i),
                    numa: port.about.numa,
                    cycles: q.history.total(),
                    pinned: port.affinity.get(&number(i)).copied(),
                })
            })
            .collect()
    }

    /// Who has each of them, or had the queue of its number before its port's were renewed.
    pub(super) fn owners(&self) -> Vec<Option<WorkerId>> {
        let ports = self.by_no.values().filter(|p| p.about.is_pmd);
        ports.flat_map(|port| port.queues.iter().map(Queue::owner)).collect()
    }

    /// The queues of the kernel's ports.
    pub(super) fn unpolled(&self) -> Vec<Key> {
        let ports = self.by_no.iter().filter(|(_, p)| !p.about.is_pmd);
        ports.flat_map(|(no, p)| (0..p.queues.len()).map(|i| (*no, number(i)))).collect()
    }

    /// The queues that a worker has, those of poll-mode ports or all.
    pub(super) fn of_worker(&self, worker: WorkerId, all: bool) -> impl Iterator<Item = RxqView<'_>> {
        let ports = self.by_no.iter().filter(move |(_, p)| all || p.about.is_pmd);
        ports.flat_map(move |(no, port)| {
            let mine = move |(_, q): &(usize, &Queue)| matches!(q.home, Home::At(w) if w == worker);
            port.queues.iter().enumerate().filter(mine).map(move |(i, q)| RxqView {
                no: *no,
                port: &port.about.name,
                queue: number(i),
                history: &q.history,
                elapsed: &q.elapsed,
                load: &q.load,
                forecast: &q.forecast,
            })
        })
    }

    /// So many packets has its device ever dropped since nobody took them.
    pub(super) fn missed(&mut self, no: PortNo, missed: u64) {
        self.by_no.get_mut(&no).into_iter().for_each(|p| p.missed = missed);
    }

    /// A second ended, which had so many cycles. `saturated`: the worker was never idle in it.
    pub(super) fn second(&mut self, elapsed: u64, saturated: impl Fn(WorkerId) -> bool) {
        for port in self.by_no.values_mut().filter(|p| p.about.is_pmd) {
            let all: u64 = port.queues.iter().map(|q| q.load.packets()).sum();
            for queue in &mut port.queues {
                let (bursts, full) = queue.load.bursts();
                let packets = queue.load.packets();
                // What a device dropped it counts for all queues together.
                let share = u128::from(port.missed) * u128::from(packets) / u128::from(all.max(1));
                let cycles = queue.load.cycles().0;
                let counted = Counted { cycles, bursts, full, packets, dropped: share as u64 };
                let saturated = matches!(queue.home, Home::At(worker) if saturated(worker));
                queue.forecast.read(counted, elapsed, saturated);
            }
        }
    }

    /// What each queue of a poll-mode port is forecast to want in the next second.
    pub(super) fn forecasts(&self) -> impl Iterator<Item = Forecasted<'_>> {
        let ports = self.by_no.iter().filter(|(_, p)| p.about.is_pmd);
        ports.flat_map(|(no, port)| {
            port.queues.iter().enumerate().map(|(i, q)| Forecasted {
                key: (*no, number(i)),
                port: &port.about.name,
                queues: port.queues.len(),
                pinned: port.affinity.contains_key(&number(i)),
                owner: match q.home {
                    Home::Here(_) => None,
                    Home::At(worker) => Some(worker),
                },
                forecast: &q.forecast,
            })
        })
    }

    /// An interval ended: what every queue took in it is remembered.
    pub(super) fn sample(&mut self) {
        for queue in self.by_no.values_mut().flat_map(|p| &mut p.queues) {
            queue.history.sample(queue.load.cycles());
            queue.elapsed.sample(cycles::now());
        }
    }
}
