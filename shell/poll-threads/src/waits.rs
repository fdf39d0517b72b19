//! Time limits of the main thread for answers of workers.
//!
//! A worker answers between two turns, which take microseconds. A worker that a device or a guest holds up does not answer. After
//! [`LIMIT`] the main thread logs that and goes on; what the worker holds stays as it is until the worker continues. The main thread
//! does not wait for it again until it has answered.

use crate::answers::{Answer, Answers, LIMIT, Silent};
use crate::handle::WorkerHandle;
use crate::log::LOG;
use crate::mailbox::Order;
use crate::workers::Workers;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, channel};
use std::time::{Duration, Instant};
use units::{CoreId, PortNo, WorkerId};

impl Workers {
    /// Waits until a port's queues have been dropped, also those of an earlier order that was not answered in time.
    pub(crate) fn await_queues(&mut self, no: PortNo, answers: Answers) -> Result<(), Silent> {
        let mut awaited = self.unanswered.ports.remove(&no).unwrap_or_default();
        awaited.extend(answers.into_awaited());
        let late = self.wait_for(awaited);
        let silent = self.name(&late);
        if !late.is_empty() {
            self.unanswered.ports.insert(no, late);
        }
        silent
    }

    /// Waits until all orders have been carried out.
    pub(crate) fn await_answers_of(&mut self, answers: Answers) -> Result<(), Silent> {
        let late = self.wait_for(answers.into_awaited());
        self.name(&late)
    }

    fn name(&self, late: &[(WorkerId, Answer)]) -> Result<(), Silent> {
        let mut cores: Vec<CoreId> =
            late.iter().filter_map(|(id, _)| Some(self.handles.get(id)?.place.core)).collect();
        cores.dedup();
        if late.is_empty() { Ok(()) } else { Err(Silent(cores)) }
    }

    /// Returns the answers that did not arrive in time.
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

    /// Orders a late worker to answer when it continues.
    fn ask(&mut self, worker: WorkerId) {
        let Some(handle) =
            self.handles.get(&worker).filter(|_| !self.unanswered.workers.contains_key(&worker))
        else {
            return;
        };
        runtime::err!(
            LOG,
            "{}: the queues that it has stay unchanged until it answers",
            Silent(vec![handle.place.core])
        );
        let (sender, answer) = channel();
        handle.mailbox.post(Order::Settle(sender));
        self.unanswered.workers.insert(worker, answer);
    }

    /// Waits for an answer that carries a value.
    pub(crate) fn hear<T>(&self, handle: &WorkerHandle, answer: &Receiver<T>) -> Option<T> {
        let known = self.unanswered.workers.get(&handle.place.id);
        let silent = known.is_some_and(|a| a.try_recv() == Err(TryRecvError::Empty));
        answer.recv_timeout(if silent { Duration::ZERO } else { LIMIT }).ok()
    }
}
