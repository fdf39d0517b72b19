//! How long the main thread waits for workers.
//!
//! A worker answers between two turns, which take microseconds. One that a device or a guest holds up does not answer at
//! all; whatever waits for it goes on without after [`LIMIT`], says so, and what the worker holds stays as it is until it
//! comes back. A worker that has not answered is not waited for again before it has.

use crate::workers::desk::Done;
use crate::workers::{LOG, Order, Seat, Workers};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use units::{CoreId, PortNo, WorkerId};

/// A thousand times what a long turn takes; a machine that is short of processors delays a thread by less.
pub(super) const LIMIT: Duration = Duration::from_secs(2);

/// Workers that have not answered in time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Silent(Vec<CoreId>);

#[cfg(test)]
impl Silent {
    pub(super) fn of(core: CoreId) -> Silent {
        Silent(vec![core])
    }
}

impl fmt::Display for Silent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |core: &CoreId| match *core {
            CoreId::UNPINNED => "the worker of kernel ports".to_owned(),
            CoreId(core) => format!("the PMD thread on core {core}"),
        };
        let names: Vec<String> = self.0.iter().map(name).collect();
        write!(f, "{} has not answered for {} s", names.join(" and "), LIMIT.as_secs())
    }
}

impl std::error::Error for Silent {}

/// What a worker owes: the other end goes when it has carried out its orders.
type Answer = Receiver<()>;

/// The answers to orders that are being given, by worker.
#[derive(Default)]
pub(super) struct Answers(BTreeMap<WorkerId, (Done, Answer)>);

impl Answers {
    /// What the next order to this worker carries.
    pub(super) fn of(&mut self, worker: WorkerId) -> Done {
        self.0.entry(worker).or_insert_with(channel).0.clone()
    }

    fn into_awaited(self) -> Vec<(WorkerId, Answer)> {
        self.0.into_iter().map(|(worker, (_, answer))| (worker, answer)).collect()
    }
}

/// What is remembered of answers that have not come.
#[derive(Default)]
pub(super) struct Unanswered {
    /// Workers, and the last thing that each was asked.
    workers: BTreeMap<WorkerId, Answer>,
    /// Ports whose queues were not given back.
    ports: BTreeMap<PortNo, Vec<(WorkerId, Answer)>>,
}

impl Unanswered {
    /// Whether it has not answered yet what it was asked when it did not answer in time.
    fn is_silent(&mut self, worker: WorkerId) -> bool {
        let silent = self.workers.get(&worker).is_some_and(|a| a.try_recv() == Err(TryRecvError::Empty));
        if !silent && self.workers.remove(&worker).is_some() {
            runtime::info!(LOG, "worker {} answers again", worker.0);
        }
        silent
    }

    /// The port is no more.
    pub(super) fn forget(&mut self, no: PortNo) {
        self.ports.remove(&no);
    }
}

impl Workers {
    /// Waits until a port's queues have been given back, those among them that were asked for before.
    pub(super) fn await_queues(&mut self, no: PortNo, answers: Answers) -> Result<(), Silent> {
        let mut awaited = self.unanswered.ports.remove(&no).unwrap_or_default();
        awaited.extend(answers.into_awaited());
        let late = self.wait_for(awaited);
        let silent = self.name(&late);
        if !late.is_empty() {
            self.unanswered.ports.insert(no, late);
        }
        silent
    }

    /// Waits until every order has been carried out.
    pub(super) fn await_answers_of(&mut self, answers: Answers) -> Result<(), Silent> {
        let late = self.wait_for(answers.into_awaited());
        self.name(&late)
    }

    fn name(&self, late: &[(WorkerId, Answer)]) -> Result<(), Silent> {
        let mut cores: Vec<CoreId> =
            late.iter().filter_map(|(id, _)| Some(self.seats.get(id)?.place.core)).collect();
        cores.dedup();
        if late.is_empty() { Ok(()) } else { Err(Silent(cores)) }
    }

    /// What did not come in time.
    fn wait_for(&mut self, awaited: Vec<(WorkerId, Answer)>) -> Vec<(WorkerId, Answer)> {
        let deadline = Instant::now() + LIMIT;
        let mut late = Vec::new();
        for (worker, answer) in awaited {
            let limit = match self.unanswered.is_silent(worker) {
                true => Duration::ZERO,
                false => deadline.saturating_duration_since(Instant::now()),
            };
            if answer.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                late.push((worker, answer));
            }
        }
        for worker in late.iter().map(|(worker, _)| *worker).collect::<Vec<_>>() {
            self.ask(worker);
        }
        late
    }

    /// Asks a worker that is late to tell when it is back.
    fn ask(&mut self, worker: WorkerId) {
        let Some(seat) = self.seats.get(&worker).filter(|_| !self.unanswered.workers.contains_key(&worker))
        else {
            return;
        };
        runtime::err!(LOG, "{}: what it holds stays as it is until it does", Silent(vec![seat.place.core]));
        let (sender, answer) = channel();
        seat.mailbox.post(Order::Settle(sender));
        self.unanswered.workers.insert(worker, answer);
    }

    /// An answer of a worker that carries something.
    pub(super) fn hear<T>(&self, seat: &Seat, answer: &Receiver<T>) -> Option<T> {
        let known = self.unanswered.workers.get(&seat.place.id);
        let silent = known.is_some_and(|a| a.try_recv() == Err(TryRecvError::Empty));
        answer.recv_timeout(if silent { Duration::ZERO } else { LIMIT }).ok()
    }
}

/// Waits for a thread that was told to end.
pub(super) fn join(thread: JoinHandle<()>, core: CoreId) {
    let deadline = Instant::now() + LIMIT;
    while !thread.is_finished() {
        if Instant::now() >= deadline {
            runtime::err!(LOG, "{}: it ends when it comes back", Silent(vec![core]));
            return;
        }
        std::thread::sleep(Duration::from_micros(100));
    }
    let _ = thread.join();
}
