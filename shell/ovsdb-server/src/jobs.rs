//! Jobs: threads that parse a long message, or execute requests that read or write many rows.
//!
//! A job owns its data and returns it, so nothing is shared or locked. At most one job has the core, and at most
//! [`PARSERS`] jobs parse. If no thread can be started, the calling thread executes the job.

use crate::core::{Core, Work};
use crate::session::SessionId;
use ovsdb::ClientMessage;
use ovsdb::stream::{STACK, StreamError};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Builder;

/// Maximum number of messages that are parsed at the same time.
const PARSERS: usize = 2;

/// The result of a job.
pub enum JobResult {
    /// The parsed message of a session, or its error.
    Parsed(SessionId, Result<ClientMessage, StreamError>),
    /// The core, after it has executed its work.
    Core(Box<Core>),
}

/// The running jobs of a server.
pub struct Jobs {
    sender: Sender<JobResult>,
    results: Receiver<JobResult>,
    /// Number of jobs that parse.
    parsing: usize,
    /// A job has the core.
    has_core: bool,
}

impl Jobs {
    pub fn new() -> Jobs {
        let (sender, results) = channel();
        Jobs { sender, results, parsing: 0, has_core: false }
    }

    /// Returns whether jobs are running.
    pub fn any_running(&self) -> bool {
        self.parsing > 0 || self.has_core
    }

    /// Returns whether a job has the core.
    pub fn has_core(&self) -> bool {
        self.has_core
    }

    /// Returns whether another message may be parsed.
    pub fn can_parse(&self) -> bool {
        self.parsing < PARSERS
    }

    /// Starts a job that parses a message.
    pub fn parse(&mut self, session: SessionId, text: Vec<u8>) {
        self.parsing += 1;
        self.start("ovsdb-parse", move || JobResult::Parsed(session, ClientMessage::parse(text)));
    }

    /// Starts a job that executes requests and then returns the core.
    pub fn execute(&mut self, mut core: Box<Core>, work: Work) {
        self.has_core = true;
        self.start("ovsdb-work", move || {
            core.execute_work(work);
            core.finish_work();
            JobResult::Core(core)
        });
    }

    fn start(&mut self, name: &str, job: impl FnOnce() -> JobResult + Send + 'static) {
        // Shared with the thread: if the thread cannot be started, the job is still here.
        let shared_job: Arc<Mutex<Option<Job>>> = Arc::new(Mutex::new(Some(Box::new(job))));
        let (job_of_thread, sender) = (Arc::clone(&shared_job), self.sender.clone());
        if Builder::new()
            .name(name.to_owned())
            .stack_size(STACK)
            .spawn(move || run(&job_of_thread, &sender))
            .is_err()
        {
            run(&shared_job, &self.sender);
        }
    }

    /// The next result of a job, if there is one. `wait`: if jobs are running, wait until one ends.
    pub fn next_result(&mut self, wait: bool) -> Option<JobResult> {
        let results = match wait && self.any_running() {
            true => self.results.recv().ok(),
            false => self.results.try_recv().ok(),
        };
        match &results {
            Some(JobResult::Parsed(..)) => self.parsing -= 1,
            Some(JobResult::Core(_)) => self.has_core = false,
            None => {}
        }
        results
    }
}

type Job = Box<dyn FnOnce() -> JobResult + Send>;

fn run(shared_job: &Mutex<Option<Job>>, sender: &Sender<JobResult>) {
    let job = shared_job.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(job) = job {
        // Fails if the server has ended.
        _ = sender.send(job());
    }
}
