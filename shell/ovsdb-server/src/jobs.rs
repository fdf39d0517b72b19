//! Jobs: threads for long work, which is parsing long messages and carrying out requests that read or write many rows.
//!
//! A job owns its data and returns it: nothing is shared or locked. One job at a time has the core, and at most
//! [`PARSERS`] parse. If no thread can be started, the caller does the work at once.

use crate::core::{Core, Work};
use crate::session::SessionId;
use ovsdb::Long;
use ovsdb::stream::StreamError;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Builder;

/// Messages that are parsed at the same time, at most.
const PARSERS: usize = 2;

/// The result of a job.
pub enum Done {
    /// A message of a session, or its error.
    Parsed(SessionId, Result<Long, StreamError>),
    /// The core, after its work.
    Core(Box<Core>),
}

/// The running jobs of a server.
pub struct Jobs {
    tell: Sender<Done>,
    done: Receiver<Done>,
    parsing: usize,
    working: bool,
}

impl Jobs {
    pub fn new() -> Jobs {
        let (tell, done) = channel();
        Jobs { tell, done, parsing: 0, working: false }
    }

    /// Whether results are outstanding.
    pub fn any(&self) -> bool {
        self.parsing > 0 || self.working
    }

    /// Returns whether a job has the core.
    pub fn has_core(&self) -> bool {
        self.working
    }

    /// Whether another message may be parsed.
    pub fn can_parse(&self) -> bool {
        self.parsing < PARSERS
    }

    /// Parses a message in a job.
    pub fn parse(&mut self, session: SessionId, text: Vec<u8>) {
        self.parsing += 1;
        self.start("ovsdb-parse", move || Done::Parsed(session, Long::parse(text)));
    }

    /// Carries out requests in a job.
    pub fn work(&mut self, mut core: Box<Core>, work: Work) {
        self.working = true;
        self.start("ovsdb-work", move || {
            core.carry_out(work);
            core.settle();
            Done::Core(core)
        });
    }

    fn start(&mut self, name: &str, job: impl FnOnce() -> Done + Send + 'static) {
        // In shared memory, so that the job still exists if the thread cannot be started.
        let place: Arc<Mutex<Option<Job>>> = Arc::new(Mutex::new(Some(Box::new(job))));
        let (of_thread, tell) = (Arc::clone(&place), self.tell.clone());
        if Builder::new().name(name.to_owned()).spawn(move || run(&of_thread, &tell)).is_err() {
            run(&place, &self.tell);
        }
    }

    /// The next result if one is available; `wait`: waits for an outstanding one.
    pub fn next(&mut self, wait: bool) -> Option<Done> {
        let done = match wait && self.any() {
            true => self.done.recv().ok(),
            false => self.done.try_recv().ok(),
        };
        match &done {
            Some(Done::Parsed(..)) => self.parsing -= 1,
            Some(Done::Core(_)) => self.working = false,
            None => {}
        }
        done
    }
}

type Job = Box<dyn FnOnce() -> Done + Send>;

fn run(place: &Mutex<Option<Job>>, tell: &Sender<Done>) {
    let job = place.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(job) = job {
        // Fails if the server has been dropped.
        _ = tell.send(job());
    }
}
