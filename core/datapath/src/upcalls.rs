//! The queue of upcalls from workers to handler threads, and the return of answers.
//!
//! A [`Request`] holds a copy of the packet; the packet itself stays parked in the worker. Each request is
//! answered exactly once. When a request is dropped (no handler is left, or the handler failed), its answer
//! makes the worker translate the packet itself.
//!
//! **A worker never waits for a lock here.** If the queue or the worker's inbox is locked, the worker tries again in
//! its next iteration. Locks are held only while a few words are moved. A worker does not wait for the allocator
//! either, which locks when a thread frees memory of another thread: copies of packets return to the worker with the
//! answers, and programs return to a handler with the next requests ([`Unneeded`]).
//!
//! The shell provides the functions that wake a sleeping handler and each worker.

use crate::fair_queue::FairQueue;
use crate::packet::Meta;
use crate::program::Program;
use dpif::{DropReason, FlowOwner};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use sync::Mailbox;
use units::{Millis, WorkerId};

/// Wakes a sleeping thread; cheap if the thread is awake.
pub type Wake = Arc<dyn Fn() + Send + Sync>;

/// An upcall: the request to translate a packet that matched no megaflow.
pub(crate) struct Request {
    /// The hash by which the packet is parked; `ticket`: the ticket of this parked flow (`park.rs`).
    pub(crate) flow_hash: u64,
    pub(crate) ticket: u64,
    pub(crate) bytes: Vec<u8>,
    pub(crate) meta: Meta,
    pub(crate) now: Millis,
    pub(crate) worker: WorkerId,
    /// Where the answer is sent; `None` after the request was answered.
    pub(crate) inbox: Option<Arc<Inbox>>,
}

/// The answer to an upcall.
pub(crate) struct Answer {
    pub(crate) flow_hash: u64,
    pub(crate) ticket: u64,
    pub(crate) outcome: Outcome,
    /// The buffer of the request, for reuse.
    pub(crate) bytes: Vec<u8>,
}

/// Memory that a handler allocated and a worker no longer needs; a handler frees it.
pub(crate) type Unneeded = (Program, Arc<dyn FlowOwner>);

/// What the worker must do with the packet of the request. Packets parked behind it are looked up again in any case.
pub(crate) enum Outcome {
    /// The packet was translated: execute this program and credit the owner. `tcp_flags`: the flags of the packet.
    Run { program: Program, owner: Arc<dyn FlowOwner>, tcp_flags: u16 },
    /// The packet has a megaflow now: look it up again.
    LookUpAgain,
    /// The packet could not be translated.
    Failed(DropReason),
    /// No handler has translated the packet: translate it inline.
    Unserved,
}

/// An answer and the inbox to which it is sent.
pub(crate) type AddressedAnswer = (Arc<Inbox>, Answer);

impl Request {
    /// Turns the request into its answer, for [`answer_all`].
    pub(crate) fn into_answer(mut self, outcome: Outcome) -> Option<AddressedAnswer> {
        self.take_answer(outcome)
    }

    fn take_answer(&mut self, outcome: Outcome) -> Option<AddressedAnswer> {
        let inbox = self.inbox.take()?;
        let bytes = std::mem::take(&mut self.bytes);
        Some((inbox, Answer { flow_hash: self.flow_hash, ticket: self.ticket, outcome, bytes }))
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        if let Some((inbox, answer)) = self.take_answer(Outcome::Unserved) {
            inbox.put(std::iter::once(answer));
        }
    }
}

/// Sends answers. Consecutive answers for the same worker are sent together.
pub(crate) fn answer_all(answers: &mut Vec<AddressedAnswer>) {
    let mut answers = answers.drain(..).peekable();
    while let Some((inbox, first)) = answers.next() {
        let same = std::iter::from_fn(|| answers.next_if(|(other, _)| Arc::ptr_eq(other, &inbox)));
        inbox.put(std::iter::once(first).chain(same.map(|(_, answer)| answer)));
    }
}

/// Answers for one worker. Their number is bounded by the number of the worker's unanswered requests.
pub(crate) struct Inbox {
    answers: Mailbox<Answer>,
    wake: Wake,
}

impl Inbox {
    pub(crate) fn new(wake: Wake) -> Inbox {
        Inbox { answers: Mailbox::default(), wake }
    }

    fn put(&self, more: impl Iterator<Item = Answer>) {
        if self.answers.post_all(more) {
            (self.wake)();
        }
    }

    /// Moves all answers to `out`, which must be empty. Returns true if there were any, or if the inbox was locked.
    #[inline]
    pub(crate) fn take(&self, out: &mut VecDeque<Answer>) -> bool {
        self.answers.try_take_all(out)
    }
}

#[derive(Default)]
struct State {
    queue: FairQueue<Request>,
    unneeded: Vec<Unneeded>,
    wake: Option<Wake>,
    inboxes: Vec<Weak<Inbox>>,
}

/// The queue between workers and handler threads.
#[derive(Default)]
pub(crate) struct Upcalls {
    state: Mutex<State>,
    /// Number of handler threads. Changed while `state` is locked.
    servers: AtomicUsize,
}

impl Upcalls {
    /// Returns whether a handler thread exists.
    #[inline]
    pub(crate) fn has_handler_thread(&self) -> bool {
        self.servers.load(Ordering::Acquire) != 0
    }

    /// Sets the function that wakes a handler thread.
    pub(crate) fn set_wake(&self, wake: Wake) {
        lock(&self.state).wake = Some(wake);
    }

    /// Registers a worker's inbox.
    pub(crate) fn add_inbox(&self, inbox: &Arc<Inbox>) {
        let mut state = lock(&self.state);
        state.inboxes.retain(|i| i.strong_count() != 0);
        state.inboxes.push(Arc::downgrade(inbox));
    }

    /// Registers a handler thread.
    pub(crate) fn register(&self) {
        let _state = lock(&self.state);
        self.servers.fetch_add(1, Ordering::Release);
    }

    /// Unregisters a handler thread. After the last one, all requests return to their workers, and all workers are
    /// woken.
    pub(crate) fn unregister(&self) {
        let mut state = lock(&self.state);
        if self.servers.fetch_sub(1, Ordering::Release) != 1 {
            return;
        }
        let left = (std::mem::take(&mut state.queue), std::mem::take(&mut state.unneeded));
        let inboxes: Vec<_> = state.inboxes.iter().filter_map(Weak::upgrade).collect();
        drop(state);
        drop(left);
        inboxes.iter().for_each(|inbox| (inbox.wake)());
    }

    /// Queues the requests of a worker and accepts the programs and owners that it no longer needs. Returns false and changes nothing if the queue
    /// is locked or no handler exists.
    pub(crate) fn submit(&self, requests: &mut Vec<Request>, unneeded: &mut Vec<Unneeded>) -> bool {
        let Some(mut state) = try_lock(&self.state) else { return false };
        if !self.has_handler_thread() {
            return false;
        }
        if state.unneeded.is_empty() {
            std::mem::swap(&mut state.unneeded, unneeded);
        } else {
            state.unneeded.append(unneeded);
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

    /// Removes up to `most` requests from the queue. The programs and owners that workers no longer need are moved to `unneeded`, which must be
    /// empty.
    pub(crate) fn take(&self, most: usize, requests: &mut Vec<Request>, unneeded: &mut Vec<Unneeded>) {
        let mut state = lock(&self.state);
        std::mem::swap(&mut state.unneeded, unneeded);
        requests.extend(std::iter::from_fn(|| state.queue.pop()).take(most));
    }

    /// Frees programs and owners that no handler has fetched.
    pub(crate) fn free_unneeded(&self) {
        let unneeded = std::mem::take(&mut lock(&self.state).unneeded);
        drop(unneeded);
    }

    /// Number of requests in the queue.
    pub(crate) fn waiting(&self) -> usize {
        lock(&self.state).queue.len()
    }
}

/// Takes the lock even if another thread panicked while it held the lock: each operation leaves these lists valid.
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
