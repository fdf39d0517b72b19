//! A worker and the orders that it obeys between two turns.
//!
//! A queue travels: the worker that has it is ordered to give it to another one, and posts it there itself. Nobody waits.
//! Orders go to the worker that will have the queue once all earlier orders are carried out, so one may come before the
//! queue does; it is then kept until the queue has come. Thus each queue sees its orders in the order in which they were
//! given, however many hands it goes through.

use crate::cycles;
use crate::workers::mailbox::Mailbox;
use crate::workers::metrics;
use datapath::{Rxq, Worker};
use pmd::metrics::{Recorder, Watch};
use pmd::{LatencySleep, Sleeper};
use std::collections::BTreeMap;
use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Sender, SyncSender};
use units::{Cycles, Micros, Millis, PortNo, QueueId};

/// Goes when an order has been carried out; who waits for that sees it go.
pub(super) type Done = Sender<()>;

/// Names a queue.
pub(super) type Key = (PortNo, QueueId);

/// A queue on its way.
pub(super) struct Travelling {
    pub(super) rxq: Rxq,
    /// What a sleeping worker sleeps on.
    pub(super) fd: Option<Arc<OwnedFd>>,
    /// It is to be polled, not only to be kept.
    pub(super) polled: bool,
}

/// See the module.
pub(super) enum Order {
    /// A queue comes.
    Take(Travelling),
    /// A queue goes to another worker, to be polled there or only to be kept.
    Give(Key, Arc<Mailbox>, bool),
    /// A queue goes for good.
    Drop(Key, Done),
    /// Answer when nothing is held any more that changed before.
    Settle(Done),
    /// Send by these tx queues from now on.
    TxQueue(usize),
    /// Sleep at most so long when there is nothing to do.
    SleepMax(Micros),
    /// Sleep so that no packet waits longer; 0: only as `SleepMax` says.
    LatencyTarget(Micros),
    /// Record every turn from now on, here, or no more.
    Record(Option<Box<Recorder>>),
    /// Send a copy of what was recorded.
    Recorded(SyncSender<Recorder>),
    /// Tell these turns to the log.
    Watch(Watch),
    /// End, when the last queue has gone.
    Stop,
}

impl fmt::Debug for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Order::Take(t) => write!(f, "Take({:?}, {:?})", t.rxq.port, t.rxq.id),
            Order::Give(key, ..) => write!(f, "Give{key:?}"),
            Order::Drop(key, _) => write!(f, "Drop{key:?}"),
            Order::Settle(_) => f.write_str("Settle"),
            Order::TxQueue(n) => write!(f, "TxQueue({n})"),
            Order::SleepMax(max) => write!(f, "SleepMax({})", max.0),
            Order::LatencyTarget(target) => write!(f, "LatencyTarget({})", target.0),
            Order::Record(recorder) => write!(f, "Record({})", recorder.is_some()),
            Order::Recorded(_) => f.write_str("Recorded"),
            Order::Watch(watch) => write!(f, "Watch({})", watch.on),
            Order::Stop => f.write_str("Stop"),
        }
    }
}

/// See the module.
pub(super) struct Desk {
    pub(super) worker: Worker,
    pub(super) mailbox: Arc<Mailbox>,
    /// Queues that are kept and not polled.
    shelf: Vec<Rxq>,
    fds: BTreeMap<Key, Arc<OwnedFd>>,
    /// Orders about queues that have not come yet.
    early: Vec<(Key, Order)>,
    pub(super) sleeper: Sleeper,
    pub(super) latency_sleep: LatencySleep,
    recorder: Option<Box<Recorder>>,
    stopping: bool,
    now: Millis,
}

impl Desk {
    pub(super) fn new(worker: Worker, mailbox: Arc<Mailbox>) -> Desk {
        Desk {
            worker,
            mailbox,
            shelf: Vec::new(),
            fds: BTreeMap::new(),
            early: Vec::new(),
            sleeper: Sleeper::default(),
            latency_sleep: LatencySleep::default(),
            recorder: None,
            stopping: false,
            now: Millis(0),
        }
    }

    /// What to sleep on.
    pub(super) fn fds(&self) -> impl Iterator<Item = &Arc<OwnedFd>> {
        self.fds.values()
    }

    /// There is something to poll.
    pub(super) fn has_queues(&self) -> bool {
        self.worker.rxqs().next().is_some()
    }

    /// One turn, which starts now; true if there was any packet.
    #[inline]
    pub(super) fn poll(&mut self, now: Millis, start: Cycles, counter: impl Fn() -> Cycles) -> bool {
        let busy = self.worker.poll_from(now, start, counter);
        if let Some(recorder) = &mut self.recorder {
            metrics::record(recorder, &mut self.worker, now);
        }
        busy
    }

    /// What was recorded.
    pub(super) fn recorded(&self) -> Option<Recorder> {
        let mut recorder = self.recorder.as_deref().cloned()?;
        recorder.settle();
        Some(recorder)
    }

    /// Carries out what was ordered; false when it is time to end.
    pub(super) fn obey(&mut self, now: Millis) -> bool {
        self.now = now;
        while let Some(order) = self.mailbox.take() {
            self.carry_out(order);
        }
        !self.stopping || self.has_queues() || !self.shelf.is_empty() || !self.early.is_empty()
    }

    fn carry_out(&mut self, order: Order) {
        match order {
            Order::Take(t) => self.take(t),
            Order::Give(key, to, polled) => {
                // What waits for an answer goes out by us, and before what the next worker receives.
                if self.worker.rxqs().any(|q| q == key) {
                    self.worker.settle(key.0, self.now);
                }
                match self.let_go(key) {
                    Some((rxq, fd)) => to.post(Order::Take(Travelling { rxq, fd, polled })),
                    None => self.early.push((key, Order::Give(key, to, polled))),
                }
            }
            Order::Drop(key, done) => match self.let_go(key) {
                Some(gone) => {
                    drop(gone);
                    drop(done);
                }
                None => self.early.push((key, Order::Drop(key, done))),
            },
            Order::Settle(done) => {
                self.worker.rest();
                drop(done);
            }
            Order::TxQueue(n) => self.worker.set_tx_queue(n),
            Order::SleepMax(max) => self.sleeper.set_max(max),
            Order::LatencyTarget(target) => {
                // Asking for the length of a cycle takes a moment at a start, which who has no target is spared.
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

    fn take(&mut self, t: Travelling) {
        let key = (t.rxq.port, t.rxq.id);
        self.latency_sleep.set_can_arm(true);
        if let Some(fd) = t.fd {
            self.fds.insert(key, fd);
        }
        match t.polled {
            true => self.worker.take_over(t.rxq),
            false => self.shelf.push(t.rxq),
        }
        // What was ordered meanwhile, as far as the queue stays here.
        let next = self.early.iter().position(|(k, _)| *k == key);
        if let Some(at) = next {
            let (_, order) = self.early.remove(at);
            self.carry_out(order);
        }
    }

    fn let_go(&mut self, key: Key) -> Option<(Rxq, Option<Arc<OwnedFd>>)> {
        self.latency_sleep.set_can_arm(true);
        let (port, id) = key;
        let kept = self.shelf.iter().position(|q| (q.port, q.id) == key).map(|at| self.shelf.remove(at));
        let rxq = kept.or_else(|| self.worker.remove_rxq(port, id))?;
        Some((rxq, self.fds.remove(&key)))
    }
}
