//! Threads for long work: parsing a long message, or executing requests that read or write many rows.
//!
//! A job owns its data and returns it, so nothing is shared or locked. At most one job has the core, and at
//! most [`PARSERS`] jobs parse. If no thread can be started, the caller does the work at once.

use crate::core::{Core, Work};
use crate::session::SessionId;
use ovsdb::Long;
use ovsdb::stream::{STACK, StreamError};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Builder;

/// Maximum number of messages that are parsed at the same time.
const PARSERS: usize = 2;

/// The result of a job.
pub enum Done {
    /// The parsed message of a session, or its error.
    Parsed(SessionId, Result<Long, StreamError>),
    /// The core, after it has executed its work.
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

    /// Returns whether jobs are running.
    pub fn any(&self) -> bool {
        self.parsing > 0 || self.working
    }

    /// Returns whether a job has the core.
    pub fn has_core(&self) -> bool {
        self.working
    }

    /// Returns whether another message may be parsed.
    pub fn can_parse(&self) -> bool {
        self.parsing < PARSERS
    }

    /// Starts a job that parses a message.
    pub fn parse(&mut self, session: SessionId, text: Vec<u8>) {
        self.parsing += 1;
        self.start("ovsdb-parse", move || Done::Parsed(session, Long::parse(text)));
    }

    /// Starts a job that executes requests.
    pub fn work(&mut self, mut core: Box<Core>, work: Work) {
        self.working = true;
        self.start("ovsdb-work", move || {
            core.carry_out(work);
            core.settle();
            Done::Core(core)
        });
    }

    fn start(&mut self, name: &str, job: impl FnOnce() -> Done + Send + 'static) {
        // Shared with the thread: if it cannot be started, the job is still available.
        let place: Arc<Mutex<Option<Job>>> = Arc::new(Mutex::new(Some(Box::new(job))));
        let (of_thread, tell) = (Arc::clone(&place), self.tell.clone());
        if Builder::new()
            .name(name.to_owned())
            .stack_size(STACK)
            .spawn(move || run(&of_thread, &tell))
            .is_err()
        {
            run(&place, &self.tell);
        }
    }

    /// The next result, if there is one; with `wait`, waits for it if a job is running.
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
        // Fails if the server has ended.
        _ = tell.send(job());
    }
}
