//! The state of one thread: a worker, its queues, and the orders that it carries out between two iterations.
//!
//! To move a queue, the main thread orders the worker that has it to give it away, and this worker posts it to the next one. No
//! thread waits. Orders go to the worker that will have the queue once all earlier orders are carried out, so an order may arrive
//! before the queue; it is then kept until the queue arrives. So each queue sees its orders in the order in which they were given.

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

/// The worker of kernel ports polls all queues if they are at most this many: a poll of an empty queue is a system call, and to ask
/// which queues have packets is one, too.
const FEW_QUEUES: usize = 8;
/// With more queues, one of this many iterations polls all of them: the allowance of a queue in a shared pool follows its polls.
const ALL_EVERY: u32 = 64;

/// The state of one thread.
pub(crate) struct ThreadState {
    pub(crate) worker: Worker,
    pub(crate) mailbox: Arc<Mailbox>,
    /// Queues that the thread keeps but does not poll.
    kept_only: Vec<Rxq>,
    fds: BTreeMap<Key, Arc<OwnedFd>>,
    /// Which queues have packets, if the thread sleeps while none has.
    readiness: Option<Readiness>,
    /// Iterations since all queues were polled.
    since_all: u32,
    /// Orders about queues that have not arrived yet.
    early: Vec<(Key, Order)>,
    pub(crate) sleeper: Sleeper,
    pub(crate) latency_sleep: LatencySleep,
    recorder: Option<Box<Recorder>>,
    stopping: bool,
    now: Millis,
}

impl ThreadState {
    pub(crate) fn new(worker: Worker, mailbox: Arc<Mailbox>) -> ThreadState {
        ThreadState {
            worker,
            mailbox,
            kept_only: Vec::new(),
            fds: BTreeMap::new(),
            readiness: None,
            since_all: 0,
            early: Vec::new(),
            sleeper: Sleeper::default(),
            latency_sleep: LatencySleep::default(),
            recorder: None,
            stopping: false,
            now: Millis(0),
        }
    }

    /// The same for a worker that sleeps on its queues: that of kernel ports, and one that the main loop runs.
    pub(crate) fn sleeping(worker: Worker, mailbox: Arc<Mailbox>) -> ThreadState {
        ThreadState { readiness: Readiness::new().ok(), ..ThreadState::new(worker, mailbox) }
    }

    /// The descriptors to sleep on.
    pub(crate) fn fds(&self) -> impl Iterator<Item = &OwnedFd> {
        let told = self.readiness.as_ref().map_or(0, Readiness::len);
        let is_told = |key: &Key| self.readiness.as_ref().is_some_and(|readiness| readiness.watches(*key));
        // Usually `readiness` covers all descriptors.
        let alone = self.fds.iter().take(if told == self.fds.len() { 0 } else { usize::MAX });
        let alone = alone.filter(move |(key, _)| !is_told(key)).map(|(_, fd)| &**fd);
        self.readiness.iter().map(Readiness::fd).chain(alone)
    }

    /// Whether there is a queue to poll.
    pub(crate) fn has_queues(&self) -> bool {
        self.worker.rxqs().next().is_some()
    }

    /// Runs one iteration, which starts now. Returns whether there was a packet.
    #[inline]
    pub(crate) fn poll(&mut self, now: Millis, start: Cycles, counter: impl Fn() -> Cycles) -> bool {
        if let Some(readiness) = &self.readiness {
            readiness.ready().into_iter().for_each(|(port, queue)| self.worker.fetch(port, queue));
        }
        let busy = self.worker.poll_from(now, start, counter);
        if let Some(recorder) = &mut self.recorder {
            record(recorder, &mut self.worker, now);
        }
        if let Some(readiness) = &self.readiness {
            self.worker.set_aside(|port, queue| readiness.watches((port, queue)));
        }
        busy
    }

    /// Runs one iteration of the worker of kernel ports. Of many queues it polls those that have packets, so that hundreds of idle ports
    /// delay no other port; `all`: every queue. Returns whether there was a packet.
    pub(crate) fn poll_ready(&mut self, now: Millis, all: bool) -> bool {
        let readiness = self.readiness.as_ref().filter(|readiness| readiness.len() > FEW_QUEUES);
        self.since_all = if all { 0 } else { (self.since_all + 1) % ALL_EVERY };
        match readiness {
            Some(readiness) if self.since_all != 0 => {
                readiness.ready().into_iter().for_each(|(port, queue)| self.worker.fetch(port, queue));
            }
            _ => self.worker.fetch_all(),
        }
        let busy = self.worker.poll_with(now, cycles::now);
        if let Some(readiness) = readiness {
            self.worker.set_idle_aside(|port, queue| readiness.watches((port, queue)));
        }
        busy
    }

    /// The recorder.
    pub(crate) fn recorded(&self) -> Option<Recorder> {
        let mut recorder = self.recorder.as_deref().cloned()?;
        recorder.settle();
        Some(recorder)
    }

    /// Carries out the orders. Returns false when the thread must end.
    pub(crate) fn carry_out_orders(&mut self, now: Millis) -> bool {
        self.now = now;
        while let Some(order) = self.mailbox.take() {
            self.carry_out(order);
        }
        !self.stopping || self.has_queues() || !self.kept_only.is_empty() || !self.early.is_empty()
    }

    fn carry_out(&mut self, order: Order) {
        match order {
            Order::Take(t) => self.take(t),
            Order::Give(key, to, polled) => {
                // Packets that wait for an answer are sent by this worker, before the next worker receives any.
                if self.worker.rxqs().any(|q| q == key) {
                    self.worker.settle(key.0, self.now);
                }
                match self.release_queue(key) {
                    Some((rxq, fd)) => to.post(Order::Take(MovingQueue { rxq, fd, polled })),
                    None => self.early.push((key, Order::Give(key, to, polled))),
                }
            }
            Order::Drop(key, done) => {
                // The ports of a shared queue stay.
                if key.0 == SHARED_RX && self.worker.rxqs().any(|q| q == key) {
                    self.worker.settle(key.0, self.now);
                }
                match self.release_queue(key) {
                    Some(gone) => {
                        drop(gone);
                        drop(done);
                    }
                    None => self.early.push((key, Order::Drop(key, done))),
                }
            }
            Order::Settle(done) => {
                self.worker.rest();
                drop(done);
            }
            Order::TxQueue(n) => self.worker.set_tx_queue(n),
            Order::SleepMax(max) => self.sleeper.set_max(max),
            Order::LatencyTarget(target) => {
                // Measuring the length of a cycle delays a start, so it is only done with a target.
                let per_us = if target.0 == 0 { 0 } else { cycles::per_second() / 1_000_000 };
                self.latency_sleep.set_target(target.0, per_us, cpu::pause::can_pause());
            }
            Order::Record(recorder) => self.recorder = recorder,
            Order::Recorded(copy) => {
                if let Some(recorder) = self.recorded() {
                    let _ = copy.send(recorder);
                }
            }
            Order::Watch(watch) => self.recorder.iter_mut().for_each(|r| r.set_watch(watch)),
            Order::Stop => self.stopping = true,
        }
    }

    fn take(&mut self, t: MovingQueue) {
        let key = (t.rxq.port, t.rxq.id);
        self.latency_sleep.set_can_arm(true);
        if let Some(fd) = t.fd {
            if let Some(readiness) = self.readiness.as_mut().filter(|_| t.polled) {
                readiness.add(key, &fd);
            }
            self.fds.insert(key, fd);
        }
        match t.polled {
            true => self.worker.take_over(t.rxq),
            false => self.kept_only.push(t.rxq),
        }
        // Orders that arrived before the queue, until one moves it on.
        let next = self.early.iter().position(|(k, _)| *k == key);
        if let Some(at) = next {
            let (_, order) = self.early.remove(at);
            self.carry_out(order);
        }
    }

    fn release_queue(&mut self, key: Key) -> Option<(Rxq, Option<Arc<OwnedFd>>)> {
        self.latency_sleep.set_can_arm(true);
        let (port, id) = key;
        let kept =
            self.kept_only.iter().position(|q| (q.port, q.id) == key).map(|at| self.kept_only.remove(at));
        let rxq = kept.or_else(|| self.worker.remove_rxq(port, id))?;
        let fd = self.fds.remove(&key);
        if let (Some(readiness), Some(fd)) = (&mut self.readiness, &fd) {
            readiness.remove(key, fd);
        }
        Some((rxq, fd))
    }
}
