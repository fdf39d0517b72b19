//! Runs jobs that would block the main loop in threads of their own.

use crate::log::Module;

static LOG: Module = Module::new("background");

/// Runs a job in a new thread. If no thread can be started, the calling thread runs it.
pub fn run(job: impl FnOnce() + Send + 'static) {
    // A failed `spawn` would drop the job, so it is sent to the thread once the thread exists.
    let (give, take) = std::sync::mpsc::sync_channel::<Box<dyn FnOnce() + Send>>(1);
    let thread = std::thread::Builder::new().name("background".to_owned());
    let started = thread.spawn(move || take.recv().into_iter().for_each(|job| job()));
    match started {
        Ok(_) => drop(give.send(Box::new(job))),
        Err(e) => {
            crate::warn!(LOG, "cannot start a background thread: {}", crate::error_text(&e));
            job();
        }
    }
}
