//! The requests and replies that the main thread and the server's thread exchange.
//!
//! The main thread never waits here: locks are held while a few words are moved.

use crate::view::View;
use runtime::Waker;
use serde_json::Value;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Traces that wait for the main thread; more are refused.
const TRACES_MAX: usize = 4;

/// What the main thread is asked.
#[derive(Debug, PartialEq, Eq)]
pub enum Question {
    /// The text of `ofproto/trace` with these arguments.
    Trace(Vec<String>),
    /// What happens to the packets of a flow, as JSON.
    Why {
        /// The port that receives them, if it is known.
        port: Option<String>,
        /// The flow, in the syntax of flows.
        flow: String,
    },
}

/// The main thread's answer: text or JSON, or why there is none.
pub(crate) type Answered = Result<Value, String>;

/// A question to the main thread.
pub struct Trace {
    /// The question.
    pub question: Question,
    pub(crate) answer: SyncSender<Answered>,
    pub(crate) server: Waker,
}

impl Trace {
    /// Gives the answer.
    pub fn answer(self, result: Result<Value, String>) {
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
    listen: Listen,
}

/// Settings of the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Listen {
    /// `other_config:metrics-listen`
    pub(crate) address: Option<String>,
    /// `other_config:metrics-hosts`, in small letters.
    pub(crate) hosts: Vec<String>,
}

impl Listen {
    pub(crate) fn new(address: Option<&str>, hosts: Option<&str>) -> Listen {
        let names = hosts.unwrap_or_default().split([' ', ',']).filter(|name| !name.is_empty());
        Listen { address: address.map(str::to_owned), hosts: names.map(str::to_ascii_lowercase).collect() }
    }
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
    pub(crate) fn trace(&self, question: Question, answer: SyncSender<Answered>) -> bool {
        let mut state = self.state();
        if state.traces.len() == TRACES_MAX {
            return false;
        }
        state.traces.push_back(Trace { question, answer, server: self.server.clone() });
        drop(state);
        self.main.wake();
        true
    }

    pub(crate) fn next_trace(&self) -> Option<Trace> {
        self.state().traces.pop_front()
    }

    /// Sets the address to listen at, and the host's names.
    pub(crate) fn set_listen(&self, listen: Listen) {
        self.state().listen = listen;
        self.server.wake();
    }

    pub(crate) fn listen(&self) -> Listen {
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
