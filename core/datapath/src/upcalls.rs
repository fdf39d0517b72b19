//! Upcalls on their way from workers to the threads that translate, and answers on their way back.
//!
//! A worker asks by a [`Request`], which holds a copy of the packet; the packet itself stays parked with the worker. A
//! request is answered exactly once, whatever happens to it: one that is dropped (nobody serves any more, or who served
//! it has failed) answers that the worker has to translate by itself.
//!
//! **Nobody who forwards waits for a lock here.** A worker that finds the queue or its inbox locked tries again at its
//! next turn. Locks are held for moving a few words. Nor does it wait for the allocator: memory goes back to who took it,
//! copies of packets with the answers, programs with the next requests ([`Spent`]). A thread that frees what another
//! allocated takes the lock of that one's memory.
//!
//! Waking is the business of the shell: it gives a call that wakes a sleeping server, and one for each worker.

use crate::fair::FairQueue;
use crate::packet::Meta;
use crate::program::Program;
use dpif::{DropReason, FlowOwner};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use units::{Millis, WorkerId};

/// Wakes a thread that sleeps since there was nothing to do; cheap if it does not sleep.
pub type Wake = Arc<dyn Fn() + Send + Sync>;

/// A packet that a worker has no megaflow for.
pub(crate) struct Request {
    pub(crate) flow: u64,
    pub(crate) ticket: u64,
    pub(crate) bytes: Vec<u8>,
    pub(crate) meta: Meta,
    pub(crate) now: Millis,
    pub(crate) worker: WorkerId,
    /// Where the answer goes; `None` once it is answered.
    pub(crate) inbox: Option<Arc<Inbox>>,
}

/// What a worker is told.
pub(crate) struct Answer {
    pub(crate) flow: u64,
    pub(crate) ticket: u64,
    pub(crate) outcome: Outcome,
    /// The request's, to be used again.
    pub(crate) bytes: Vec<u8>,
}

/// What a server made for a worker, which is done with it: to be freed by a server.
pub(crate) type Spent = (Program, Arc<dyn FlowOwner>);

/// What is to be done with the packet that was asked about. Those behind it are looked up again in any case.
pub(crate) enum Outcome {
    /// It was translated: run this on it, and credit it. `tcp_flags` are its own.
    Run { program: Program, owner: Arc<dyn FlowOwner>, tcp_flags: u16 },
    /// There is a megaflow for it by now: look it up again, too.
    Again,
    /// It could not be translated.
    Failed(DropReason),
    /// Nobody has looked at it.
    Unserved,
}

/// An answer with the place where it goes.
pub(crate) type Addressed = (Arc<Inbox>, Answer);

impl Request {
    /// What is to be sent by [`answer_all`].
    pub(crate) fn answered(mut self, outcome: Outcome) -> Option<Addressed> {
        self.take_answer(outcome)
    }

    fn take_answer(&mut self, outcome: Outcome) -> Option<Addressed> {
        let inbox = self.inbox.take()?;
        let bytes = std::mem::take(&mut self.bytes);
        Some((inbox, Answer { flow: self.flow, ticket: self.ticket, outcome, bytes }))
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        if let Some((inbox, answer)) = self.take_answer(Outcome::Unserved) {
            inbox.put(std::iter::once(answer));
        }
    }
}

/// Sends answers; those that follow each other to one worker go together.
pub(crate) fn answer_all(answers: &mut Vec<Addressed>) {
    let mut answers = answers.drain(..).peekable();
    while let Some((inbox, first)) = answers.next() {
        let same = std::iter::from_fn(|| answers.next_if(|(other, _)| Arc::ptr_eq(other, &inbox)));
        inbox.put(std::iter::once(first).chain(same.map(|(_, answer)| answer)));
    }
}

/// Answers for one worker. As long as what it asked, which is bounded.
pub(crate) struct Inbox {
    answers: Mutex<Vec<Answer>>,
    any: AtomicBool,
    wake: Wake,
}

impl Inbox {
    pub(crate) fn new(wake: Wake) -> Inbox {
        Inbox { answers: Mutex::default(), any: AtomicBool::new(false), wake }
    }

    fn put(&self, more: impl Iterator<Item = Answer>) {
        let mut answers = lock(&self.answers);
        answers.extend(more);
        let first = !self.any.swap(true, Ordering::AcqRel);
        drop(answers);
        if first {
            (self.wake)();
        }
    }

    /// Moves what there is to `out`, which is empty. True: there was something, or may be.
    #[inline]
    pub(crate) fn take(&self, out: &mut Vec<Answer>) -> bool {
        if !self.any.load(Ordering::Acquire) {
            return false;
        }
        if let Some(mut answers) = try_lock(&self.answers) {
            std::mem::swap(&mut *answers, out);
            self.any.store(false, Ordering::Release);
        }
        true
    }
}

#[derive(Default)]
struct State {
    queue: FairQueue<Request>,
    spent: Vec<Spent>,
    wake: Option<Wake>,
    inboxes: Vec<Weak<Inbox>>,
}

/// The queue between workers and servers.
#[derive(Default)]
pub(crate) struct Upcalls {
    state: Mutex<State>,
    /// How many serve. Changed under the lock.
    servers: AtomicUsize,
}

impl Upcalls {
    /// Somebody serves.
    #[inline]
    pub(crate) fn is_served(&self) -> bool {
        self.servers.load(Ordering::Acquire) != 0
    }

    /// What wakes a server.
    pub(crate) fn set_wake(&self, wake: Wake) {
        lock(&self.state).wake = Some(wake);
    }

    /// A worker that asks and hears.
    pub(crate) fn add_inbox(&self, inbox: &Arc<Inbox>) {
        let mut state = lock(&self.state);
        state.inboxes.retain(|i| i.strong_count() != 0);
        state.inboxes.push(Arc::downgrade(inbox));
    }

    /// Somebody serves from now on.
    pub(crate) fn enter(&self) {
        let _state = lock(&self.state);
        self.servers.fetch_add(1, Ordering::Release);
    }

    /// One serves no longer. After the last, what waits goes back to its workers, which hear of it if they sleep.
    pub(crate) fn leave(&self) {
        let mut state = lock(&self.state);
        if self.servers.fetch_sub(1, Ordering::Release) != 1 {
            return;
        }
        let left = (std::mem::take(&mut state.queue), std::mem::take(&mut state.spent));
        let inboxes: Vec<_> = state.inboxes.iter().filter_map(Weak::upgrade).collect();
        drop(state);
        drop(left);
        inboxes.iter().for_each(|inbox| (inbox.wake)());
    }

    /// Queues what a worker asks, and takes what it is done with; false, and all is still there: not now.
    pub(crate) fn submit(&self, requests: &mut Vec<Request>, spent: &mut Vec<Spent>) -> bool {
        let Some(mut state) = try_lock(&self.state) else { return false };
        if !self.is_served() {
            return false;
        }
        if state.spent.is_empty() {
            std::mem::swap(&mut state.spent, spent);
        } else {
            state.spent.append(spent);
        }
        if requests.is_empty() {
            return true;
        }
        for request in requests.drain(..) {
            state.queue.push(request.meta.in_port, request);
        }
        let wake = state.wake.clone();
        drop(state);
        if let Some(wake) = wake {
            wake();
        }
        true
    }

    /// The next ones to serve, at most so many. What workers are done with goes to `spent`, which is empty.
    pub(crate) fn next(&self, most: usize, requests: &mut Vec<Request>, spent: &mut Vec<Spent>) {
        let mut state = lock(&self.state);
        std::mem::swap(&mut state.spent, spent);
        requests.extend(std::iter::from_fn(|| state.queue.pop()).take(most));
    }

    /// Frees what workers are done with and no server has come for.
    pub(crate) fn tidy(&self) {
        let spent = std::mem::take(&mut lock(&self.state).spent);
        drop(spent);
    }

    /// How many wait.
    pub(crate) fn waiting(&self) -> usize {
        lock(&self.state).queue.len()
    }
}

/// A panic of another holder leaves every list here usable: each operation on them is complete in itself.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}
