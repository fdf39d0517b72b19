//! Threads for what takes long: parsing a long message, carrying out requests that read or write many rows.
//!
//! A job owns what it works on and gives it back: nothing is shared and nothing is locked. One job at a time has the core,
//! and at most [`PARSERS`] parse. Where no thread can be started, the work is done at once by the caller.

use crate::core::{Core, Work};
use crate::session::SessionId;
use ovsdb::Long;
use ovsdb::stream::StreamError;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Builder;

/// Messages that are parsed at the same time.
const PARSERS: usize = 2;

/// What a job gives back.
pub enum Done {
    /// A message of a session, or what is wrong with it.
    Parsed(SessionId, Result<Long, StreamError>),
    /// The core, with all done that it was given for.
    Core(Box<Core>),
}

/// The jobs of a server.
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

    /// Whether results are to come.
    pub fn any(&self) -> bool {
        self.parsing > 0 || self.working
    }

    /// Whether a job has the core.
    pub fn has_core(&self) -> bool {
        self.working
    }

    /// Whether one more message may be parsed.
    pub fn can_parse(&self) -> bool {
        self.parsing < PARSERS
    }

    /// Has a message parsed.
    pub fn parse(&mut self, session: SessionId, text: Vec<u8>) {
        self.parsing += 1;
        self.start("ovsdb-parse", move || Done::Parsed(session, Long::parse(text)));
    }

    /// Has requests carried out.
    pub fn work(&mut self, mut core: Box<Core>, work: Work) {
        self.working = true;
        self.start("ovsdb-work", move || {
            core.carry_out(work);
            core.settle();
            Done::Core(core)
        });
    }

    fn start(&mut self, name: &str, job: impl FnOnce() -> Done + Send + 'static) {
        // In a place that outlives the attempt to start a thread: where that fails, the job is still there.
        let place: Arc<Mutex<Option<Job>>> = Arc::new(Mutex::new(Some(Box::new(job))));
        let (of_thread, tell) = (Arc::clone(&place), self.tell.clone());
        if Builder::new().name(name.to_owned()).spawn(move || run(&of_thread, &tell)).is_err() {
            run(&place, &self.tell);
        }
    }

    /// The next result, if one is there; `wait`: if one is to come.
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
        // Nobody hears it where the server has gone.
        _ = tell.send(job());
    }
}
