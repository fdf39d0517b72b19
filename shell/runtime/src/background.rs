//! Runs jobs that would block the main loop in threads of their own, at low priority. So if there are not enough cores,
//! the threads that serve packets, probes and clients run first.

use crate::log::Module;

static LOG: Module = Module::new("background");

/// The priority of such threads (`nice` value): on a contended core they get a tenth of the time.
const NICE: i32 = 10;

/// Runs a job in a new thread. If no thread can be started, the calling thread runs it.
pub fn run(job: impl FnOnce() + Send + 'static) {
    // A failed `spawn` would drop the job, so the job is sent to the thread after the thread was created.
    let (sender, receiver) = std::sync::mpsc::sync_channel::<Box<dyn FnOnce() + Send>>(1);
    let thread = std::thread::Builder::new().name("background".to_owned());
    let started = thread.spawn(move || {
        // On Linux this changes the priority of the calling thread only. If it fails, the job runs at normal priority.
        let _ = rustix::process::setpriority_process(None, NICE);
        receiver.recv().into_iter().for_each(|job| job());
    });
    match started {
        Ok(_) => drop(sender.send(Box::new(job))),
        Err(e) => {
            crate::warn!(LOG, "cannot start a background thread: {}", crate::error_text(&e));
            job();
        }
    }
}
