//! The ports of a datapath, and which worker has each of their rx queues, as the main thread records it.

use crate::cycles;
use crate::mailbox::{Key, MovingQueue};
use datapath::{Rxq, RxqLoad};
use netdev::device::RxHandle;
use pmd::History;
use pmd::forecast::{Counted, Forecast};
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use units::{CoreId, NumaId, PortNo, QueueId, WorkerId};

/// What scheduling needs to know of a port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolledPort {
    /// Its name, for messages and tables.
    pub name: String,
    /// The NUMA node of its memory.
    pub numa: NumaId,
    /// Poll threads poll it; otherwise the worker of kernel ports does.
    pub is_pmd: bool,
}

/// Which worker has a queue once all orders have been carried out.
pub(crate) enum QueueOwner {
    /// No worker has it yet.
    Unassigned(Box<MovingQueue>),
    /// A worker has it.
    Worker(WorkerId),
}

struct Queue {
    owner: QueueOwner,
    load: Arc<RxqLoad>,
    /// The worker that had the queue of this number before the port's queues were replaced.
    before: Option<WorkerId>,
    history: History,
    /// Cycles that passed during the intervals of `history`.
    elapsed: History,
    forecast: Forecast,
}

/// What is remembered of a queue when its port's queues are replaced.
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
        let owner = QueueOwner::Unassigned(Box::new(MovingQueue { rxq, fd, polled: true }));
        let Past { owner: before, mut history, mut elapsed, mut forecast } = past.unwrap_or_default();
        history.rebase(load.cycles());
        elapsed.rebase(cycles::now());
        forecast.rebase();
        Queue { owner, load, before, history, elapsed, forecast }
    }

    /// The worker that has it, or had it last.
    fn owner(&self) -> Option<WorkerId> {
        match self.owner {
            QueueOwner::Unassigned(_) => self.before,
            QueueOwner::Worker(worker) => Some(worker),
        }
    }
}

struct Port {
    about: PolledPort,
    affinity: BTreeMap<QueueId, CoreId>,
    queues: Vec<Queue>,
    /// Remembered from the queues that were taken back, until there are new ones.
    past: Vec<Past>,
    /// Packets that the device dropped because they were not fetched in time.
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
    /// Its counters since it exists.
    pub load: &'a Arc<RxqLoad>,
    /// Its load forecast.
    pub forecast: &'a Forecast,
}

impl RxqView<'_> {
    /// Cycles spent on its packets during the last `intervals` intervals and since their end, and cycles that passed. A queue
    /// that is younger is measured since it exists.
    pub fn usage(&self, intervals: usize) -> (u64, u64) {
        let (used, passed) = (self.load.cycles(), cycles::now());
        (self.history.recent(intervals, used), self.elapsed.recent(intervals, passed))
    }
}

/// A queue with its load forecast.
pub(crate) struct Forecasted<'a> {
    pub(crate) key: Key,
    /// Name of its port.
    pub(crate) port: &'a str,
    /// How many queues the port has.
    pub(crate) queues: usize,
    /// An administrator pinned it to a core.
    pub(crate) pinned: bool,
    pub(crate) owner: Option<WorkerId>,
    pub(crate) forecast: &'a Forecast,
}

/// The ports of a datapath.
#[derive(Default)]
pub(crate) struct Ports {
    by_no: BTreeMap<PortNo, Port>,
    /// Ports that PMD threads poll.
    polled: BTreeSet<PortNo>,
    /// Kernel ports with queues that no worker has yet.
    unpolled: BTreeSet<PortNo>,
}

fn number(i: usize) -> QueueId {
    QueueId(i as u16)
}

impl Ports {
    pub(crate) fn add(&mut self, no: PortNo, about: PolledPort, handles: Vec<RxHandle>) {
        // Pinned queues stay pinned when a port's queues are renewed, and their history is kept.
        let old = self.by_no.remove(&no);
        let (affinity, past) = old.map(|p| (p.affinity, p.past)).unwrap_or_default();
        let mut past = past.into_iter();
        let queue = |(i, handle): (usize, RxHandle)| {
            Queue::new(Rxq::new(no, number(i), handle.queue), handle.poll_fd, past.next())
        };
        let queues = handles.into_iter().enumerate().map(queue).collect();
        let set = if about.is_pmd { &mut self.polled } else { &mut self.unpolled };
        set.insert(no);
        self.by_no.insert(no, Port { about, affinity, queues, past: Vec::new(), missed: 0 });
    }

    /// Returns whether that changed anything.
    pub(crate) fn pin(&mut self, no: PortNo, affinity: BTreeMap<QueueId, CoreId>) -> bool {
        match self.by_no.get_mut(&no) {
            Some(port) if port.affinity != affinity => {
                port.affinity = affinity;
                port.about.is_pmd
            }
            _ => false,
        }
    }

    /// Sets the NUMA node of a port's memory. Returns whether that changed anything.
    pub(crate) fn set_numa(&mut self, no: PortNo, numa: NumaId) -> bool {
        match self.by_no.get_mut(&no) {
            Some(port) if port.about.numa != numa => {
                port.about.numa = numa;
                port.about.is_pmd
            }
            _ => false,
        }
    }

    /// Removes a port. Returns whether PMD threads are concerned.
    pub(crate) fn remove(&mut self, no: PortNo) -> bool {
        self.unpolled.remove(&no);
        self.polled.remove(&no);
        self.by_no.remove(&no).is_some_and(|p| p.about.is_pmd)
    }

    /// Removes its queues; the port stays.
    pub(crate) fn clear(&mut self, no: PortNo) {
        if let Some(port) = self.by_no.get_mut(&no) {
            port.past = std::mem::take(&mut port.queues).into_iter().map(Past::of).collect();
        }
    }

    pub(crate) fn numbers(&self) -> Vec<PortNo> {
        self.by_no.keys().copied().collect()
    }

    pub(crate) fn any_polled(&self) -> bool {
        !self.polled.is_empty()
    }

    /// The ports that poll threads poll.
    fn of_poll_threads(&self) -> impl Iterator<Item = (&PortNo, &Port)> {
        self.polled.iter().filter_map(|no| self.by_no.get_key_value(no))
    }

    /// The queues of a port with the worker that has each.
    pub(crate) fn queues_of(&self, no: PortNo) -> impl Iterator<Item = (QueueId, Option<WorkerId>)> {
        let owner = |q: &Queue| match q.owner {
            QueueOwner::Unassigned(_) => None,
            QueueOwner::Worker(worker) => Some(worker),
        };
        let queues = self.by_no.get(&no).into_iter().flat_map(|p| &p.queues);
        queues.enumerate().map(move |(i, q)| (number(i), owner(q)))
    }

    /// The worker that has a queue.
    pub(crate) fn owner(&self, (no, id): Key) -> Option<WorkerId> {
        self.queues_of(no).nth(usize::from(id.0)).and_then(|(_, owner)| owner)
    }

    pub(crate) fn owner_mut(&mut self, (no, id): Key) -> Option<&mut QueueOwner> {
        self.by_no.get_mut(&no)?.queues.get_mut(usize::from(id.0)).map(|q| &mut q.owner)
    }

    /// The queues for poll threads.
    pub(crate) fn polled(&self) -> Vec<pmd::Rxq> {
        let ports = self.of_poll_threads();
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

    /// The owner of each queue of [`Self::polled`]; of a new queue, the worker that had the queue of its number before.
    pub(crate) fn owners(&self) -> Vec<Option<WorkerId>> {
        self.of_poll_threads().flat_map(|(_, port)| port.queues.iter().map(Queue::owner)).collect()
    }

    /// The queues of kernel ports that no worker has yet.
    pub(crate) fn take_unpolled(&mut self) -> Vec<Key> {
        let of = |no: PortNo| self.queues_of(no).map(move |(queue, _)| (no, queue)).collect::<Vec<_>>();
        let keys = self.unpolled.iter().copied().flat_map(of).collect();
        self.unpolled.clear();
        keys
    }

    /// The queues that a worker has. `all`: also those of kernel ports.
    pub(crate) fn of_worker(&self, worker: WorkerId, all: bool) -> impl Iterator<Item = RxqView<'_>> {
        let ports = self.by_no.iter().filter(move |(_, p)| all || p.about.is_pmd);
        ports.flat_map(move |(no, port)| {
            let mine =
                move |(_, q): &(usize, &Queue)| matches!(q.owner, QueueOwner::Worker(w) if w == worker);
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

    /// Sets how many packets the device has dropped because they were not fetched in time.
    pub(crate) fn missed(&mut self, no: PortNo, missed: u64) {
        self.by_no.get_mut(&no).into_iter().for_each(|p| p.missed = missed);
    }

    /// Updates the forecasts at the end of a second of `elapsed` cycles. `saturated`: the worker was never idle in it.
    pub(crate) fn second(&mut self, elapsed: u64, saturated: impl Fn(WorkerId) -> bool) {
        for no in &self.polled {
            let Some(port) = self.by_no.get_mut(no) else { continue };
            let all: u64 = port.queues.iter().map(|q| q.load.packets()).sum();
            for queue in &mut port.queues {
                let (bursts, full) = queue.load.bursts();
                let packets = queue.load.packets();
                // Devices count drops for all queues together.
                let share = u128::from(port.missed) * u128::from(packets) / u128::from(all.max(1));
                let cycles = queue.load.cycles().0;
                let counted = Counted { cycles, bursts, full, packets, dropped: share as u64 };
                let saturated = matches!(queue.owner, QueueOwner::Worker(worker) if saturated(worker));
                queue.forecast.read(counted, elapsed, saturated);
            }
        }
    }

    /// The forecasts of the queues of poll-mode ports.
    pub(crate) fn forecasts(&self) -> impl Iterator<Item = Forecasted<'_>> {
        self.of_poll_threads().flat_map(|(no, port)| {
            port.queues.iter().enumerate().map(|(i, q)| Forecasted {
                key: (*no, number(i)),
                port: &port.about.name,
                queues: port.queues.len(),
                pinned: port.affinity.contains_key(&number(i)),
                owner: match q.owner {
                    QueueOwner::Unassigned(_) => None,
                    QueueOwner::Worker(worker) => Some(worker),
                },
                forecast: &q.forecast,
            })
        })
    }

    /// Stores the counters of every queue at the end of an interval.
    pub(crate) fn sample(&mut self) {
        for queue in self.by_no.values_mut().flat_map(|p| &mut p.queues) {
            queue.history.sample(queue.load.cycles());
            queue.elapsed.sample(cycles::now());
        }
    }
}
