//! The state of one thread: a worker, its queues, and the orders that it carries out between two iterations.
//!
//! To move a queue, the main thread orders the worker that has the queue to hand it over. That worker posts the queue to
//! the mailbox of the new worker. No thread waits. The main thread posts each order to the worker that will have the
//! queue after all earlier orders have been carried out. If the order arrives before the queue, the worker keeps it until
//! the queue arrives. The orders about a queue are therefore carried out in the order in which they were posted.

use crate::cycles;
use crate::mailbox::{Key, Mailbox, MovingQueue, Order};
use crate::readiness::Readiness;
use crate::recording::record;
use datapath::ports::SHARED_RX;
use datapath::{Rxq, Worker};
use pmd::metrics::Recorder;
use pmd::{LatencySleep, Sleeper};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use units::{Cycles, Millis};

/// The worker of kernel ports polls all its queues if it has at most this many. Polling an empty queue costs one
/// system call; asking which queues have packets costs one, too.
const FEW_QUEUES: usize = 8;
/// With more queues, one of this many iterations polls all of them, because the allowance of a queue in a shared pool is
/// updated when the queue is polled.
const ALL_EVERY: u32 = 64;

/// The state of one thread.
pub(crate) struct ThreadState {
    pub(crate) worker: Worker,
    pub(crate) mailbox: Arc<Mailbox>,
    /// Queues that the thread holds but does not poll.
    unpolled: Vec<Rxq>,
    /// The file descriptors of the queues that have one.
    fds: BTreeMap<Key, Arc<OwnedFd>>,
    /// Tells which queues have packets; only if the thread sleeps while no queue has packets.
    readiness: Option<Readiness>,
    /// Iterations since all queues were polled.
    iterations_since_all: u32,
    /// Orders about queues that have not arrived yet.
    early_orders: Vec<(Key, Order)>,
    pub(crate) sleeper: Sleeper,
    pub(crate) latency_sleep: LatencySleep,
    recorder: Option<Box<Recorder>>,
    /// The thread ends when it has no queue any more.
    stopping: bool,
    /// Time of the last call of `carry_out_orders`.
    now: Millis,
}

impl ThreadState {
    pub(crate) fn new(worker: Worker, mailbox: Arc<Mailbox>) -> ThreadState {
        ThreadState {
            worker,
            mailbox,
            unpolled: Vec::new(),
            fds: BTreeMap::new(),
            readiness: None,
            iterations_since_all: 0,
            early_orders: Vec::new(),
            sleeper: Sleeper::default(),
            latency_sleep: LatencySleep::default(),
            recorder: None,
            stopping: false,
            now: Millis(0),
        }
    }

    /// Creates the state of a worker that sleeps while its queues are empty: the worker of kernel ports, or a worker that
    /// the main loop runs.
    pub(crate) fn sleeping(worker: Worker, mailbox: Arc<Mailbox>) -> ThreadState {
        ThreadState { readiness: Readiness::new().ok(), ..ThreadState::new(worker, mailbox) }
    }

    /// The descriptors to sleep on.
    pub(crate) fn fds(&self) -> impl Iterator<Item = &OwnedFd> {
        let watched = self.readiness.as_ref().map_or(0, Readiness::len);
        let is_watched =
            |key: &Key| self.readiness.as_ref().is_some_and(|readiness| readiness.is_watched(*key));
        // Usually `readiness` watches all descriptors.
        let others = self.fds.iter().take(if watched == self.fds.len() { 0 } else { usize::MAX });
        let others = others.filter(move |(key, _)| !is_watched(key)).map(|(_, fd)| &**fd);
        self.readiness.iter().map(Readiness::fd).chain(others)
    }

    /// Whether there is a queue to poll.
    pub(crate) fn has_queues(&self) -> bool {
        self.worker.rxqs().next().is_some()
    }

    /// Runs one iteration. `start`: the counter now. Returns whether the iteration had something to do.
    #[inline]
    pub(crate) fn poll(&mut self, now: Millis, start: Cycles, counter: impl Fn() -> Cycles) -> bool {
        if let Some(readiness) = &self.readiness {
            readiness.ready().into_iter().for_each(|(port, queue)| self.worker.resume_polling(port, queue));
        }
        let busy = self.worker.poll_publishing_rarely(now, start, counter);
        if let Some(recorder) = &mut self.recorder {
            record(recorder, &mut self.worker, now);
        }
        if let Some(readiness) = &self.readiness {
            self.worker.suspend_polling(|port, queue| readiness.is_watched((port, queue)));
        }
        busy
    }

    /// Runs one iteration of the worker of kernel ports. If it has more than [`FEW_QUEUES`], it polls only those that have
    /// packets, so that hundreds of idle ports do not delay the others; it polls every queue if `all` is set, and in one
    /// iteration of [`ALL_EVERY`]. Returns whether the iteration had something to do.
    pub(crate) fn poll_kernel_ports(&mut self, now: Millis, all: bool) -> bool {
        let readiness = self.readiness.as_ref().filter(|readiness| readiness.len() > FEW_QUEUES);
        self.iterations_since_all = if all { 0 } else { (self.iterations_since_all + 1) % ALL_EVERY };
        match readiness {
            Some(readiness) if self.iterations_since_all != 0 => {
                readiness
                    .ready()
                    .into_iter()
                    .for_each(|(port, queue)| self.worker.resume_polling(port, queue));
            }
            _ => self.worker.resume_all(),
        }
        let busy = self.worker.poll_and_publish(now, cycles::now);
        if let Some(readiness) = readiness {
            self.worker.suspend_idle(|port, queue| readiness.is_watched((port, queue)));
        }
        busy
    }

    /// A copy of the recorder, with all iterations whose cycles are known; `None`: recording is off.
    pub(crate) fn copy_of_recorder(&self) -> Option<Recorder> {
        let mut recorder = self.recorder.as_deref().cloned()?;
        recorder.add_pending();
        Some(recorder)
    }

    /// Carries out all orders in the mailbox. Returns false when the thread must end.
    pub(crate) fn carry_out_orders(&mut self, now: Millis) -> bool {
        self.now = now;
        while let Some(order) = self.mailbox.take() {
            self.carry_out(order);
        }
        !self.stopping || self.has_queues() || !self.unpolled.is_empty() || !self.early_orders.is_empty()
    }

    /// Carries out one order, or keeps it if it is about a queue that has not arrived yet.
    fn carry_out(&mut self, order: Order) {
        match order {
            Order::Take(moving) => self.add_queue(moving),
            Order::Give(key, to, polled) => {
                // This worker sends the packets that are parked for an upcall before the new worker receives packets:
                // otherwise packets could be reordered.
                if self.worker.rxqs().any(|q| q == key) {
                    self.worker.translate_parked(key.0, self.now);
                }
                match self.release_queue(key) {
                    Some((rxq, fd)) => to.post(Order::Take(MovingQueue { rxq, fd, polled })),
                    None => self.early_orders.push((key, Order::Give(key, to, polled))),
                }
            }
            Order::Release(key, done) => {
                // The ports of a shared rx queue are not removed with it, so their parked packets are sent first.
                if key.0 == SHARED_RX && self.worker.rxqs().any(|q| q == key) {
                    self.worker.translate_parked(key.0, self.now);
                }
                match self.release_queue(key) {
                    Some(gone) => {
                        drop(gone);
                        drop(done);
                    }
                    None => self.early_orders.push((key, Order::Release(key, done))),
                }
            }
            Order::ReleaseReplaced(done) => {
                self.worker.go_idle();
                drop(done);
            }
            Order::TxQueue(n) => self.worker.set_tx_queue(n),
            Order::SleepMax(max) => self.sleeper.set_max(max),
            Order::LatencyTarget(target) => {
                // Measuring the cycle rate may take 20 ms, so it is only done if there is a target.
                let per_us = if target.0 == 0 { 0 } else { cycles::per_second() / 1_000_000 };
                self.latency_sleep.set_target(target.0, per_us, cpu::pause::can_pause());
            }
            Order::Record(recorder) => self.recorder = recorder,
            Order::CopyRecorder(copy) => {
                if let Some(recorder) = self.copy_of_recorder() {
                    let _ = copy.send(recorder);
                }
            }
            Order::Watch(watch) => self.recorder.iter_mut().for_each(|r| r.set_watch(watch)),
            Order::Stop => self.stopping = true,
        }
    }

    /// Adds a queue, and carries out the first order about it that arrived before.
    fn add_queue(&mut self, moving: MovingQueue) {
        let key = (moving.rxq.port, moving.rxq.id);
        self.latency_sleep.set_can_arm(true);
        if let Some(fd) = moving.fd {
            if let Some(readiness) = self.readiness.as_mut().filter(|_| moving.polled) {
                readiness.add(key, &fd);
            }
            self.fds.insert(key, fd);
        }
        match moving.polled {
            true => self.worker.take_over(moving.rxq),
            false => self.unpolled.push(moving.rxq),
        }
        // Only the first order: it takes the queue away (`Give` or `Release`), so later orders wait until the queue returns.
        let next = self.early_orders.iter().position(|(k, _)| *k == key);
        if let Some(at) = next {
            let (_, order) = self.early_orders.remove(at);
            self.carry_out(order);
        }
    }

    /// Removes a queue from this worker; `None`: the worker does not have it.
    fn release_queue(&mut self, key: Key) -> Option<(Rxq, Option<Arc<OwnedFd>>)> {
        self.latency_sleep.set_can_arm(true);
        let (port, id) = key;
        let kept =
            self.unpolled.iter().position(|q| (q.port, q.id) == key).map(|at| self.unpolled.remove(at));
        let rxq = kept.or_else(|| self.worker.remove_rxq(port, id))?;
        let fd = self.fds.remove(&key);
        if let (Some(readiness), Some(fd)) = (&mut self.readiness, &fd) {
            readiness.remove(key, fd);
        }
        Some((rxq, fd))
    }
}
