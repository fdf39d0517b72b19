//! What the main thread and the server's thread exchange.
//!
//! The main thread never waits here: locks are held while a few words are moved.

use crate::view::View;
use runtime::Waker;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Traces that wait for the main thread; more are refused.
const TRACES_MAX: usize = 4;

/// A trace for the main thread: the arguments of `ofproto/trace`.
pub struct Trace {
    /// The arguments.
    pub args: Vec<String>,
    pub(crate) answer: SyncSender<Result<String, String>>,
    pub(crate) server: Waker,
}

impl Trace {
    /// Gives the answer.
    pub fn answer(self, result: Result<String, String>) {
        // The client may have gone.
        let _ = self.answer.try_send(result);
        self.server.wake();
    }
}

/// State of both threads.
pub(crate) struct Shared {
    wanted: AtomicBool,
    ending: AtomicBool,
    state: Mutex<State>,
    main: Waker,
    server: Waker,
}

#[derive(Default)]
struct State {
    view: Option<Arc<View>>,
    traces: VecDeque<Trace>,
    /// `other_config:metrics-listen`
    listen: Option<String>,
}

impl Shared {
    pub(crate) fn new(main: Waker, server: Waker) -> Shared {
        Shared {
            wanted: AtomicBool::new(false),
            ending: AtomicBool::new(false),
            state: Mutex::default(),
            main,
            server,
        }
    }

    /// Locks the state. A poisoned lock is used all the same: no change of the state can be interrupted half-way.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the main thread for a new view.
    pub(crate) fn want(&self) {
        if !self.wanted.swap(true, Ordering::AcqRel) {
            self.main.wake();
        }
    }

    /// Whether a view was asked for. One load in each turn of the main loop.
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Acquire)
    }

    /// Publishes a view.
    pub(crate) fn publish(&self, view: View) {
        let before = self.state().view.replace(Arc::new(view));
        self.wanted.store(false, Ordering::Release);
        self.server.wake();
        // The old view is freed here, after the lock was released.
        drop(before);
    }

    /// The latest view.
    pub(crate) fn view(&self) -> Option<Arc<View>> {
        self.state().view.clone()
    }

    /// Queues a trace; false if too many wait.
    pub(crate) fn trace(&self, args: Vec<String>, answer: SyncSender<Result<String, String>>) -> bool {
        let mut state = self.state();
        if state.traces.len() == TRACES_MAX {
            return false;
        }
        state.traces.push_back(Trace { args, answer, server: self.server.clone() });
        drop(state);
        self.main.wake();
        true
    }

    pub(crate) fn next_trace(&self) -> Option<Trace> {
        self.state().traces.pop_front()
    }

    /// Sets the address to listen at.
    pub(crate) fn set_listen(&self, listen: Option<String>) {
        self.state().listen = listen;
        self.server.wake();
    }

    pub(crate) fn listen(&self) -> Option<String> {
        self.state().listen.clone()
    }

    /// Ends the server.
    pub(crate) fn end(&self) {
        self.ending.store(true, Ordering::Release);
        self.server.wake();
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Acquire)
    }
}
