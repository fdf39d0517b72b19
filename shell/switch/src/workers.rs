//! Who polls the rx queues: a thread for the kernel's ports, or (in dummy mode) the main loop itself.
//!
//! The thread sleeps in `poll(2)` on its queues' descriptors while nothing comes. Queues are added and taken away by
//! messages; taking one away waits for the thread's answer, so that a device is never closed under it.
//!
//! In dummy mode time is virtual and scheduling must not show: the main loop polls every worker until none has
//! anything to do, at each of its turns.

use crate::cycles;
use datapath::{Datapath, Worker};
use netdev::device::RxHandle;
use runtime::poll_loop::Interest;
use runtime::{Clock, PollLoop, WaitSet, Waker};
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, mpsc::TryRecvError};
use std::thread::JoinHandle;
use units::{CoreId, PortNo, QueueId, WorkerId};

/// The worker of the kernel's ports ("main thread" in `pmd-stats-show`).
pub const MAIN: WorkerId = WorkerId(0);
/// The first worker of poll-mode ports.
const PMD_FIRST: u16 = 1;

/// Where a worker runs, for tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerPlace {
    /// Which worker.
    pub id: WorkerId,
    /// The core it is pinned to; `UNPINNED` for the worker of kernel ports.
    pub core: CoreId,
    /// The NUMA node of that core.
    pub numa: u32,
}

/// An rx queue on its way to a worker.
struct Rxq {
    port: PortNo,
    id: QueueId,
    handle: RxHandle,
}

enum Order {
    Add(Rxq),
    Remove(PortNo, SyncSender<()>),
    Stop,
}

enum Mode {
    Inline { workers: Vec<(WorkerPlace, Worker, Vec<Option<Arc<OwnedFd>>>)> },
    Thread { orders: Sender<Order>, waker: Waker, thread: Option<JoinHandle<()>> },
}

/// All workers of one datapath.
pub struct Workers {
    mode: Mode,
}

impl Workers {
    /// The workers run in the main loop.
    pub fn inline(datapath: &Datapath) -> Workers {
        let place = WorkerPlace { id: MAIN, core: CoreId::UNPINNED, numa: 0 };
        Workers { mode: Mode::Inline { workers: vec![(place, datapath.worker(MAIN, 0), Vec::new())] } }
    }

    /// A thread of its own.
    pub fn thread(datapath: &Datapath, clock: &Clock) -> std::io::Result<Workers> {
        let poll = PollLoop::new(clock.clone())?;
        let waker = poll.waker();
        let (orders, inbox) = channel();
        let worker = datapath.worker(MAIN, 0);
        let thread = std::thread::Builder::new().name("worker".to_owned()).spawn(move || {
            Thread { poll, inbox, worker, fds: Vec::new() }.run();
        })?;
        Ok(Workers { mode: Mode::Thread { orders, waker, thread: Some(thread) } })
    }

    /// Gives a port's queues to a worker.
    pub fn add(&mut self, datapath: &Datapath, port: PortNo, is_pmd: bool, handles: Vec<RxHandle>) {
        for (i, handle) in handles.into_iter().enumerate() {
            let rxq = Rxq { port, id: QueueId(i as u16), handle };
            match &mut self.mode {
                Mode::Inline { workers } => {
                    let at = if is_pmd { pmd_worker(datapath, workers) } else { 0 };
                    let (_, worker, fds) = &mut workers[at];
                    fds.push(rxq.handle.poll_fd);
                    worker.add_rxq(rxq.port, rxq.id, rxq.handle.queue);
                }
                Mode::Thread { orders, waker, .. } => {
                    let _ = orders.send(Order::Add(rxq));
                    waker.wake();
                }
            }
        }
    }

    /// Takes a port's queues away; when this returns no worker touches them any more.
    pub fn remove(&mut self, port: PortNo) {
        match &mut self.mode {
            Mode::Inline { workers } => {
                for (_, worker, fds) in workers.iter_mut() {
                    remove_port(worker, fds, port);
                }
                // A poll-mode worker lives as long as there is a poll-mode port.
                workers.retain(|(place, worker, _)| place.id == MAIN || worker.rxqs().next().is_some());
            }
            Mode::Thread { orders, waker, .. } => {
                let (answer, done) = sync_channel(1);
                if orders.send(Order::Remove(port, answer)).is_ok() {
                    waker.wake();
                    let _ = done.recv();
                }
            }
        }
    }

    /// In dummy mode: one poll of each worker. True if there was anything.
    pub fn poll_inline(&mut self, clock: &Clock) -> bool {
        let Mode::Inline { workers } = &mut self.mode else { return false };
        let now = clock.now();
        let mut busy = false;
        for (_, worker, _) in workers.iter_mut() {
            busy |= worker.poll(now, cycles::now());
        }
        busy
    }

    /// In dummy mode the main loop sleeps on the queues, too.
    pub fn wait<'a>(&'a self, set: &mut WaitSet<'a>) {
        if let Mode::Inline { workers } = &self.mode {
            for fd in workers.iter().flat_map(|(_, _, fds)| fds).flatten() {
                set.fd(&**fd, Interest::Read);
            }
        }
    }

    /// The workers that there are.
    pub fn places(&self) -> Vec<WorkerPlace> {
        match &self.mode {
            Mode::Inline { workers } => workers.iter().map(|(place, _, _)| *place).collect(),
            Mode::Thread { .. } => vec![WorkerPlace { id: MAIN, core: CoreId::UNPINNED, numa: 0 }],
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        if let Mode::Thread { orders, waker, thread } = &mut self.mode {
            let _ = orders.send(Order::Stop);
            waker.wake();
            if let Some(thread) = thread.take() {
                let _ = thread.join();
            }
        }
    }
}

/// The place of the poll-mode worker in the list; it is made when the first poll-mode port comes.
fn pmd_worker(
    datapath: &Datapath,
    workers: &mut Vec<(WorkerPlace, Worker, Vec<Option<Arc<OwnedFd>>>)>,
) -> usize {
    let id = WorkerId(PMD_FIRST);
    workers.iter().position(|(place, _, _)| place.id == id).unwrap_or_else(|| {
        let place = WorkerPlace { id, core: CoreId(0), numa: 0 };
        workers.push((place, datapath.worker(id, usize::from(PMD_FIRST)), Vec::new()));
        workers.len() - 1
    })
}

fn remove_port(worker: &mut Worker, fds: &mut Vec<Option<Arc<OwnedFd>>>, port: PortNo) {
    let all: Vec<(PortNo, QueueId)> = worker.rxqs().collect();
    for (i, (p, id)) in all.iter().enumerate().rev() {
        if *p == port {
            worker.remove_rxq(*p, *id);
            fds.remove(i);
        }
    }
}

/// The thread's side.
struct Thread {
    poll: PollLoop,
    inbox: Receiver<Order>,
    worker: Worker,
    /// In the order of the worker's queues.
    fds: Vec<Option<Arc<OwnedFd>>>,
}

/// After this many polls without a packet the thread goes to sleep: a burst's next packets are often close behind.
const IDLE_POLLS: u32 = 4;

impl Thread {
    fn run(mut self) {
        let mut idle = 0;
        while self.obey() {
            let now = self.poll.clock().now();
            if self.worker.poll(now, cycles::now()) {
                idle = 0;
                continue;
            }
            idle += 1;
            if idle >= IDLE_POLLS {
                idle = 0;
                self.sleep();
            }
        }
    }

    /// Takes orders; false to end.
    fn obey(&mut self) -> bool {
        loop {
            match self.inbox.try_recv() {
                Ok(Order::Add(rxq)) => {
                    self.fds.push(rxq.handle.poll_fd);
                    self.worker.add_rxq(rxq.port, rxq.id, rxq.handle.queue);
                }
                Ok(Order::Remove(port, answer)) => {
                    remove_port(&mut self.worker, &mut self.fds, port);
                    let _ = answer.send(());
                }
                Ok(Order::Stop) | Err(TryRecvError::Disconnected) => return false,
                Err(TryRecvError::Empty) => return true,
            }
        }
    }

    fn sleep(&self) {
        let mut set = WaitSet::new();
        for fd in self.fds.iter().flatten() {
            set.fd(&**fd, Interest::Read);
        }
        self.poll.block(set);
    }
}
