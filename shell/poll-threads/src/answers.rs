//! Answers of workers to orders of the main thread, and which answers did not arrive in time.

use crate::log::LOG;
use crate::mailbox::Done;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use units::{CoreId, PortNo, WorkerId};

/// How long the main thread waits for an answer: a thousand times a long iteration, and longer than a busy machine
/// delays a thread.
pub(crate) const LIMIT: Duration = Duration::from_secs(2);

/// An error: the workers of these cores have not answered in time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerTimeout(pub(crate) Vec<CoreId>);

#[cfg(test)]
impl WorkerTimeout {
    pub(crate) fn of(core: CoreId) -> WorkerTimeout {
        WorkerTimeout(vec![core])
    }
}

impl fmt::Display for WorkerTimeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |core: &CoreId| match *core {
            CoreId::UNPINNED => "the worker of kernel ports".to_owned(),
            CoreId(core) => format!("the PMD thread on core {core}"),
        };
        let names: Vec<String> = self.0.iter().map(name).collect();
        write!(f, "{} has not answered for {} s", names.join(" and "), LIMIT.as_secs())
    }
}

impl std::error::Error for WorkerTimeout {}

/// The answer to an order: the worker closes the channel when it has carried out the order.
pub(crate) type Answer = Receiver<()>;

/// The answers to orders to several workers: one channel for each worker.
#[derive(Default)]
pub(crate) struct Answers(BTreeMap<WorkerId, (Done, Answer)>);

impl Answers {
    /// The sender to attach to the next order to this worker.
    pub(crate) fn sender_for(&mut self, worker: WorkerId) -> Done {
        self.0.entry(worker).or_insert_with(channel).0.clone()
    }

    pub(crate) fn into_awaited(self) -> Vec<(WorkerId, Answer)> {
        self.0.into_iter().map(|(worker, (_, answer))| (worker, answer)).collect()
    }
}

/// The answers that did not arrive in time.
#[derive(Default)]
pub(crate) struct Unanswered {
    /// The last unanswered order to each worker.
    pub(crate) workers: BTreeMap<WorkerId, Answer>,
    /// Ports whose queues were not dropped in time.
    pub(crate) ports: BTreeMap<PortNo, Vec<(WorkerId, Answer)>>,
}

impl Unanswered {
    /// Whether the worker still has not answered its last late order.
    pub(crate) fn is_late(&mut self, worker: WorkerId) -> bool {
        let is_late = self.workers.get(&worker).is_some_and(|a| a.try_recv() == Err(TryRecvError::Empty));
        if !is_late && self.workers.remove(&worker).is_some() {
            runtime::info!(LOG, "worker {} answers again", worker.0);
        }
        is_late
    }

    /// Called when the port was removed.
    pub(crate) fn forget(&mut self, no: PortNo) {
        self.ports.remove(&no);
    }
}

/// Waits up to [`LIMIT`] for the end of a thread that was ordered to end.
pub(crate) fn join(thread: JoinHandle<()>, core: CoreId) {
    let deadline = Instant::now() + LIMIT;
    while !thread.is_finished() {
        if Instant::now() >= deadline {
            runtime::err!(LOG, "{}: the thread ends when it is no longer blocked", WorkerTimeout(vec![core]));
            return;
        }
        std::thread::sleep(Duration::from_micros(100));
    }
    let _ = thread.join();
}
