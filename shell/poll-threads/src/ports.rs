//! The main thread's record of a datapath's ports and of the worker that has each of their rx queues.

use crate::cycles;
use crate::mailbox::{Key, MovingQueue};
use datapath::{Rxq, RxqLoad};
use netdev::device::RxHandle;
use pmd::History;
use pmd::forecast::{Forecast, QueueCounters};
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use units::{CoreId, NumaId, PortNo, QueueId, WorkerId};

/// The properties of a port that scheduling needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortScheduling {
    /// Name of the port, for messages and tables.
    pub name: String,
    /// NUMA node of the port's memory.
    pub numa: NumaId,
    /// PMD threads poll the port; false: the worker of kernel ports does.
    pub is_pmd: bool,
}

/// Which worker has a queue when all orders have been carried out.
pub(crate) enum QueueOwner {
    /// No worker has the queue yet.
    Unassigned(Box<MovingQueue>),
    /// This worker has the queue.
    Worker(WorkerId),
}

struct Queue {
    owner: QueueOwner,
    load: Arc<RxqLoad>,
    /// The worker that had the queue of this number before the port's queues were replaced.
    previous_owner: Option<WorkerId>,
    /// Cycles that were spent on the queue's packets.
    history: History,
    /// Cycles that passed during the intervals of `history`.
    elapsed: History,
    forecast: Forecast,
}

/// The state of a queue that is kept while its port's queues are replaced: the new queue of this number gets it.
#[derive(Default)]
struct KeptQueueState {
    owner: Option<WorkerId>,
    history: History,
    elapsed: History,
    forecast: Forecast,
}

impl KeptQueueState {
    fn of(queue: Queue) -> KeptQueueState {
        let owner = queue.last_owner();
        KeptQueueState { owner, history: queue.history, elapsed: queue.elapsed, forecast: queue.forecast }
    }
}

impl Queue {
    fn new(rxq: Rxq, fd: Option<Arc<OwnedFd>>, kept: Option<KeptQueueState>) -> Queue {
        let load = rxq.load();
        let owner = QueueOwner::Unassigned(Box::new(MovingQueue { rxq, fd, polled: true }));
        let KeptQueueState { owner: previous_owner, mut history, mut elapsed, mut forecast } =
            kept.unwrap_or_default();
        history.rebase(load.cycles());
        elapsed.rebase(cycles::now());
        forecast.rebase();
        Queue { owner, load, previous_owner, history, elapsed, forecast }
    }

    /// The worker that has the queue; `None`: no worker has it yet.
    fn owner(&self) -> Option<WorkerId> {
        match self.owner {
            QueueOwner::Unassigned(_) => None,
            QueueOwner::Worker(worker) => Some(worker),
        }
    }

    /// The worker that has the queue; for a queue that no worker has yet, the worker that had the previous queue of this number.
    fn last_owner(&self) -> Option<WorkerId> {
        match self.owner {
            QueueOwner::Unassigned(_) => self.previous_owner,
            QueueOwner::Worker(worker) => Some(worker),
        }
    }
}

struct Port {
    port_scheduling: PortScheduling,
    affinity: BTreeMap<QueueId, CoreId>,
    queues: Vec<Queue>,
    /// State of the withdrawn queues, until the port gets new queues.
    kept: Vec<KeptQueueState>,
    /// Packets that the device dropped because they were not fetched in time.
    device_drops: u64,
}

/// A queue, for tables.
#[derive(Clone, Copy, Debug)]
pub struct RxqView<'a> {
    /// Port number.
    pub no: PortNo,
    /// Name of the port.
    pub port: &'a str,
    /// Number of the queue in the port.
    pub queue: QueueId,
    history: &'a History,
    elapsed: &'a History,
    /// Counters since the queue was created.
    pub load: &'a Arc<RxqLoad>,
    /// Load forecast of the queue.
    pub forecast: &'a Forecast,
}

impl RxqView<'_> {
    /// Returns the cycles that were spent on the queue's packets and the cycles that passed, both during the last
    /// `intervals` intervals (5 s each) and the present interval so far. A younger queue has fewer intervals. The
    /// intervals of the queue that it replaced count, too.
    pub fn usage(&self, intervals: usize) -> (u64, u64) {
        let (used, passed) = (self.load.cycles(), cycles::now());
        (self.history.recent(intervals, used), self.elapsed.recent(intervals, passed))
    }
}

/// A queue with its load forecast.
pub(crate) struct QueueForecast<'a> {
    pub(crate) key: Key,
    /// Name of the port.
    pub(crate) port: &'a str,
    /// Number of queues of the port.
    pub(crate) queues: usize,
    /// An administrator pinned the queue to a core.
    pub(crate) pinned: bool,
    pub(crate) owner: Option<WorkerId>,
    pub(crate) forecast: &'a Forecast,
}

/// The ports of a datapath.
#[derive(Default)]
pub(crate) struct Ports {
    by_no: BTreeMap<PortNo, Port>,
    /// Ports that PMD threads poll.
    pmd_ports: BTreeSet<PortNo>,
    /// Kernel ports whose queues no worker has yet.
    unassigned_kernel_ports: BTreeSet<PortNo>,
}

fn number(i: usize) -> QueueId {
    QueueId(i as u16)
}

impl Ports {
    /// Adds a port and its queues, or new queues of a port whose queues were withdrawn.
    pub(crate) fn add(&mut self, no: PortNo, port_scheduling: PortScheduling, rx_queues: Vec<RxHandle>) {
        // When a port's queues are replaced, the pinning and the load history are kept.
        let old = self.by_no.remove(&no);
        let (affinity, kept) = old.map(|p| (p.affinity, p.kept)).unwrap_or_default();
        let mut kept = kept.into_iter();
        let queue = |(i, handle): (usize, RxHandle)| {
            Queue::new(Rxq::new(no, number(i), handle.queue), handle.poll_fd, kept.next())
        };
        let queues = rx_queues.into_iter().enumerate().map(queue).collect();
        let set =
            if port_scheduling.is_pmd { &mut self.pmd_ports } else { &mut self.unassigned_kernel_ports };
        set.insert(no);
        self.by_no.insert(no, Port { port_scheduling, affinity, queues, kept: Vec::new(), device_drops: 0 });
    }

    /// Sets which queues of a port are pinned to cores. Returns whether queues must be reassigned because of that.
    pub(crate) fn pin(&mut self, no: PortNo, affinity: BTreeMap<QueueId, CoreId>) -> bool {
        match self.by_no.get_mut(&no) {
            Some(port) if port.affinity != affinity => {
                port.affinity = affinity;
                port.port_scheduling.is_pmd
            }
            _ => false,
        }
    }

    /// Sets the NUMA node of a port's memory. Returns whether queues must be reassigned because of that.
    pub(crate) fn set_numa(&mut self, no: PortNo, numa: NumaId) -> bool {
        match self.by_no.get_mut(&no) {
            Some(port) if port.port_scheduling.numa != numa => {
                port.port_scheduling.numa = numa;
                port.port_scheduling.is_pmd
            }
            _ => false,
        }
    }

    /// Removes a port. Returns whether PMD threads polled it.
    pub(crate) fn remove(&mut self, no: PortNo) -> bool {
        self.unassigned_kernel_ports.remove(&no);
        self.pmd_ports.remove(&no);
        self.by_no.remove(&no).is_some_and(|p| p.port_scheduling.is_pmd)
    }

    /// Withdraws the queues of a port. The port stays, and the state of the queues is kept for the port's new queues.
    pub(crate) fn withdraw_queues(&mut self, no: PortNo) {
        if let Some(port) = self.by_no.get_mut(&no) {
            port.kept = std::mem::take(&mut port.queues).into_iter().map(KeptQueueState::of).collect();
        }
    }

    pub(crate) fn numbers(&self) -> Vec<PortNo> {
        self.by_no.keys().copied().collect()
    }

    pub(crate) fn has_pmd_ports(&self) -> bool {
        !self.pmd_ports.is_empty()
    }

    /// The ports that PMD threads poll.
    fn pmd_ports(&self) -> impl Iterator<Item = (&PortNo, &Port)> {
        self.pmd_ports.iter().filter_map(|no| self.by_no.get_key_value(no))
    }

    /// The queues of a port, each with the worker that has it.
    pub(crate) fn queues_of(&self, no: PortNo) -> impl Iterator<Item = (QueueId, Option<WorkerId>)> {
        let queues = self.by_no.get(&no).into_iter().flat_map(|p| &p.queues);
        queues.enumerate().map(move |(i, q)| (number(i), q.owner()))
    }

    /// The worker that has a queue.
    pub(crate) fn owner(&self, (no, id): Key) -> Option<WorkerId> {
        self.queues_of(no).nth(usize::from(id.0)).and_then(|(_, owner)| owner)
    }

    pub(crate) fn owner_mut(&mut self, (no, id): Key) -> Option<&mut QueueOwner> {
        self.by_no.get_mut(&no)?.queues.get_mut(usize::from(id.0)).map(|q| &mut q.owner)
    }

    /// The queues of the ports that PMD threads poll.
    pub(crate) fn pmd_queues(&self) -> Vec<pmd::Rxq> {
        let ports = self.pmd_ports();
        ports
            .flat_map(|(no, port)| {
                port.queues.iter().enumerate().map(|(i, q)| pmd::Rxq {
                    port: port.port_scheduling.name.clone(),
                    no: *no,
                    queue: number(i),
                    numa: port.port_scheduling.numa,
                    cycles: q.history.total(),
                    pinned: port.affinity.get(&number(i)).copied(),
                })
            })
            .collect()
    }

    /// The last owner of each queue of [`Self::pmd_queues`]: for a queue that no worker has yet, the worker that had the
    /// previous queue of this number.
    pub(crate) fn last_owners(&self) -> Vec<Option<WorkerId>> {
        self.pmd_ports().flat_map(|(_, port)| port.queues.iter().map(Queue::last_owner)).collect()
    }

    /// Returns the queues of kernel ports that no worker has yet, and clears `unassigned_kernel_ports`.
    pub(crate) fn take_unassigned_kernel_queues(&mut self) -> Vec<Key> {
        let of = |no: PortNo| self.queues_of(no).map(move |(queue, _)| (no, queue)).collect::<Vec<_>>();
        let keys = self.unassigned_kernel_ports.iter().copied().flat_map(of).collect();
        self.unassigned_kernel_ports.clear();
        keys
    }

    /// The queues that a worker has. `all`: also the queues of kernel ports.
    pub(crate) fn of_worker(&self, worker: WorkerId, all: bool) -> impl Iterator<Item = RxqView<'_>> {
        let ports = self.by_no.iter().filter(move |(_, p)| all || p.port_scheduling.is_pmd);
        ports.flat_map(move |(no, port)| {
            let mine =
                move |(_, q): &(usize, &Queue)| matches!(q.owner, QueueOwner::Worker(w) if w == worker);
            port.queues.iter().enumerate().filter(mine).map(move |(i, q)| RxqView {
                no: *no,
                port: &port.port_scheduling.name,
                queue: number(i),
                history: &q.history,
                elapsed: &q.elapsed,
                load: &q.load,
                forecast: &q.forecast,
            })
        })
    }

    /// Sets how many packets the device has dropped because they were not fetched in time.
    pub(crate) fn set_device_drops(&mut self, no: PortNo, drops: u64) {
        self.by_no.get_mut(&no).into_iter().for_each(|p| p.device_drops = drops);
    }

    /// Updates the forecasts at the end of a second of `elapsed` cycles. `saturated`: whether the worker was idle for less than 3 % of
    /// that second (`SATURATED_IDLE_DIVISOR`).
    pub(crate) fn add_second(&mut self, elapsed: u64, saturated: impl Fn(WorkerId) -> bool) {
        for no in &self.pmd_ports {
            let Some(port) = self.by_no.get_mut(no) else { continue };
            let all: u64 = port.queues.iter().map(|q| q.load.packets()).sum();
            for queue in &mut port.queues {
                let (bursts, full) = queue.load.bursts();
                let packets = queue.load.packets();
                // A device counts drops for all queues together: each queue gets a share in proportion to its packets.
                let share = u128::from(port.device_drops) * u128::from(packets) / u128::from(all.max(1));
                let cycles = queue.load.cycles().0;
                let counters = QueueCounters { cycles, bursts, full, packets, dropped: share as u64 };
                let saturated = matches!(queue.owner, QueueOwner::Worker(worker) if saturated(worker));
                queue.forecast.add_counters(counters, elapsed, saturated);
            }
        }
    }

    /// The forecasts of the queues of poll-mode ports.
    pub(crate) fn forecasts(&self) -> impl Iterator<Item = QueueForecast<'_>> {
        self.pmd_ports().flat_map(|(no, port)| {
            port.queues.iter().enumerate().map(|(i, q)| QueueForecast {
                key: (*no, number(i)),
                port: &port.port_scheduling.name,
                queues: port.queues.len(),
                pinned: port.affinity.contains_key(&number(i)),
                owner: q.owner(),
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
