//! The state that the main thread and the server's thread share: requests and replies.
//!
//! The main thread practically never waits here: locks are only held while a few words are copied.

use crate::view::View;
use runtime::Waker;
use serde_json::Value;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum number of questions that wait for the main thread; further ones are refused.
const QUESTIONS_MAX: usize = 4;

/// A question to the main thread.
#[derive(Debug, PartialEq, Eq)]
pub enum Question {
    /// The text of `ofproto/trace` with these arguments.
    Trace(Vec<String>),
    /// What happens to the packets of a flow, as JSON.
    Why {
        /// The port that receives the packets, if it is known.
        port: Option<String>,
        /// The flow, in the syntax of flows.
        flow: String,
    },
}

/// The main thread's answer: text or JSON, or an error.
pub(crate) type AnswerResult = Result<Value, String>;

/// A question to the main thread that waits for its answer.
pub struct PendingQuestion {
    /// The question.
    pub question: Question,
    pub(crate) answer: SyncSender<AnswerResult>,
    pub(crate) server: Waker,
}

impl PendingQuestion {
    /// Sends the answer to the server's thread.
    pub fn answer(self, result: Result<Value, String>) {
        // This fails if the client has disconnected.
        let _ = self.answer.try_send(result);
        self.server.wake();
    }
}

/// The state that both threads share.
pub(crate) struct Shared {
    /// A new view is requested.
    view_requested: AtomicBool,
    /// The server must end.
    ending: AtomicBool,
    state: Mutex<State>,
    main: Waker,
    server: Waker,
}

#[derive(Default)]
struct State {
    view: Option<Arc<View>>,
    questions: VecDeque<PendingQuestion>,
    listen: ListenSettings,
}

/// Settings of the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ListenSettings {
    /// `other_config:metrics-listen`
    pub(crate) address: Option<String>,
    /// `other_config:metrics-hosts`, in lower case.
    pub(crate) hosts: Vec<String>,
}

impl ListenSettings {
    pub(crate) fn new(address: Option<&str>, hosts: Option<&str>) -> ListenSettings {
        let names = hosts.unwrap_or_default().split([' ', ',']).filter(|name| !name.is_empty());
        ListenSettings {
            address: address.map(str::to_owned),
            hosts: names.map(str::to_ascii_lowercase).collect(),
        }
    }
}

impl Shared {
    pub(crate) fn new(main: Waker, server: Waker) -> Shared {
        Shared {
            view_requested: AtomicBool::new(false),
            ending: AtomicBool::new(false),
            state: Mutex::default(),
            main,
            server,
        }
    }

    /// Locks the state, even after a panic of the other thread: the state is consistent, because no change of it can panic
    /// halfway.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Requests a new view from the main thread.
    pub(crate) fn request_view(&self) {
        if !self.view_requested.swap(true, Ordering::AcqRel) {
            self.main.wake();
        }
    }

    /// Whether a new view is requested. Costs one load in each turn of the main loop.
    pub(crate) fn is_view_requested(&self) -> bool {
        self.view_requested.load(Ordering::Acquire)
    }

    /// Publishes a view.
    pub(crate) fn publish(&self, view: View) {
        let before = self.state().view.replace(Arc::new(view));
        self.view_requested.store(false, Ordering::Release);
        self.server.wake();
        // The old view is freed after the lock was released.
        drop(before);
    }

    /// The latest view.
    pub(crate) fn view(&self) -> Option<Arc<View>> {
        self.state().view.clone()
    }

    /// Queues a question for the main thread; returns false if too many are waiting.
    pub(crate) fn ask(&self, question: Question, answer: SyncSender<AnswerResult>) -> bool {
        let mut state = self.state();
        if state.questions.len() == QUESTIONS_MAX {
            return false;
        }
        state.questions.push_back(PendingQuestion { question, answer, server: self.server.clone() });
        drop(state);
        self.main.wake();
        true
    }

    pub(crate) fn next_question(&self) -> Option<PendingQuestion> {
        self.state().questions.pop_front()
    }

    /// Sets the address on which the server listens, and the names of the host.
    pub(crate) fn set_listen(&self, listen: ListenSettings) {
        self.state().listen = listen;
        self.server.wake();
    }

    pub(crate) fn listen(&self) -> ListenSettings {
        self.state().listen.clone()
    }

    /// Makes the server's thread end.
    pub(crate) fn end(&self) {
        self.ending.store(true, Ordering::Release);
        self.server.wake();
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Acquire)
    }
}
