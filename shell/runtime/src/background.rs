//! Work that would hold up the main loop, on threads of its own.

use crate::log::Module;

static LOG: Module = Module::new("background");

/// Runs a job. Where no thread can be had it is done here.
pub fn run(job: impl FnOnce() + Send + 'static) {
    // The job is lost with a builder that fails, so it is handed over when the thread is there.
    let (give, take) = std::sync::mpsc::sync_channel::<Box<dyn FnOnce() + Send>>(1);
    let thread = std::thread::Builder::new().name("background".to_owned());
    let started = thread.spawn(move || take.recv().into_iter().for_each(|job| job()));
    match started {
        Ok(_) => drop(give.send(Box::new(job))),
        Err(e) => {
            crate::warn!(LOG, "no thread: {}", crate::error_text(&e));
            job();
        }
    }
}
