//! The main thread waits for answers of workers, but only for a limited time.
//!
//! A worker answers between two iterations, which take microseconds. A worker that is blocked by a device or a guest does
//! not answer. After [`LIMIT`] the main thread logs this and continues. The worker's queues stay unchanged until it
//! continues. Until the worker has answered, the main thread does not wait for it again.

use crate::answers::{Answer, Answers, LIMIT, WorkerTimeout};
use crate::handle::WorkerHandle;
use crate::log::LOG;
use crate::mailbox::Order;
use crate::workers::Workers;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, channel};
use std::time::{Duration, Instant};
use units::{CoreId, PortNo, WorkerId};

impl Workers {
    /// Waits until the workers have dropped a port's queues, including queues of earlier orders that were not answered in
    /// time.
    pub(crate) fn await_queues(&mut self, no: PortNo, answers: Answers) -> Result<(), WorkerTimeout> {
        let mut awaited = self.unanswered.ports.remove(&no).unwrap_or_default();
        awaited.extend(answers.into_awaited());
        let late = self.wait_for(awaited);
        let result = self.timeout_of(&late);
        if !late.is_empty() {
            self.unanswered.ports.insert(no, late);
        }
        result
    }

    /// Waits until the workers have carried out these orders.
    pub(crate) fn await_answers_of(&mut self, answers: Answers) -> Result<(), WorkerTimeout> {
        let late = self.wait_for(answers.into_awaited());
        self.timeout_of(&late)
    }

    /// The error that names the workers of these answers; `Ok` if there are none.
    fn timeout_of(&self, late: &[(WorkerId, Answer)]) -> Result<(), WorkerTimeout> {
        let mut cores: Vec<CoreId> =
            late.iter().filter_map(|(id, _)| Some(self.workers.get(id)?.info.core)).collect();
        cores.dedup();
        if late.is_empty() { Ok(()) } else { Err(WorkerTimeout(cores)) }
    }

    /// Waits for the answers; returns those that did not arrive in time.
    fn wait_for(&mut self, awaited: Vec<(WorkerId, Answer)>) -> Vec<(WorkerId, Answer)> {
        let deadline = Instant::now() + LIMIT;
        let mut late = Vec::new();
        for (worker, answer) in awaited {
            let limit = match self.unanswered.is_late(worker) {
                true => Duration::ZERO,
                false => deadline.saturating_duration_since(Instant::now()),
            };
            if answer.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                late.push((worker, answer));
            }
        }
        for worker in late.iter().map(|(worker, _)| *worker).collect::<Vec<_>>() {
            self.watch_late_worker(worker);
        }
        late
    }

    /// Logs a late worker and orders it to answer when it continues.
    fn watch_late_worker(&mut self, worker: WorkerId) {
        let Some(handle) =
            self.workers.get(&worker).filter(|_| !self.unanswered.workers.contains_key(&worker))
        else {
            return;
        };
        runtime::err!(
            LOG,
            "{}: the queues that it has stay unchanged until it answers",
            WorkerTimeout(vec![handle.info.core])
        );
        let (sender, answer) = channel();
        handle.mailbox.post(Order::ReleaseReplaced(sender));
        self.unanswered.workers.insert(worker, answer);
    }

    /// Waits for a worker's answer that carries a value; `None`: it did not arrive in time.
    pub(crate) fn wait_for_value<T>(&self, handle: &WorkerHandle, answer: &Receiver<T>) -> Option<T> {
        let known = self.unanswered.workers.get(&handle.info.id);
        let silent = known.is_some_and(|a| a.try_recv() == Err(TryRecvError::Empty));
        answer.recv_timeout(if silent { Duration::ZERO } else { LIMIT }).ok()
    }
}
