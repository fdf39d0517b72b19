//! Runs jobs that would block the main loop in threads of their own, at low priority: where cores are short, the threads that serve
//! packets, probes and clients go first.

use crate::log::Module;

static LOG: Module = Module::new("background");

/// The lowered priority (`nice`): a tenth of a contended core.
const NICE: i32 = 10;

/// Runs a job in a new thread. If no thread can be started, the calling thread runs it.
pub fn run(job: impl FnOnce() + Send + 'static) {
    // A failed `spawn` would drop the job, so it is sent to the thread once the thread exists.
    let (give, take) = std::sync::mpsc::sync_channel::<Box<dyn FnOnce() + Send>>(1);
    let thread = std::thread::Builder::new().name("background".to_owned());
    let started = thread.spawn(move || {
        // Of this thread only. Without permission the job runs as others do.
        let _ = rustix::process::setpriority_process(None, NICE);
        take.recv().into_iter().for_each(|job| job());
    });
    match started {
        Ok(_) => drop(give.send(Box::new(job))),
        Err(e) => {
            crate::warn!(LOG, "cannot start a background thread: {}", crate::error_text(&e));
            job();
        }
    }
}
