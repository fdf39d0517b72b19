//! Workers whose access to a guest's rings lasts too long.

use super::backend::STUCK_LIMIT;
use crate::blocked_writes;
use crate::log::{Level, say};
use crate::port_state::PortState;
use std::time::{Duration, Instant};

/// Time limit for workers whose threads are runnable. They are not blocked by the guest, but wait for a core; on an overloaded machine this
/// can take seconds. After 20 s the port is put out of service nevertheless.
const RUNNABLE_LIMIT: Duration = Duration::from_secs(20);

/// The result of a check of workers.
#[derive(Debug, Default)]
pub struct StuckWorkers {
    /// The connection must end.
    pub close: bool,
    /// Threads that the guest blocked. They must be interrupted after the connection was ended.
    pub blocked: Vec<i32>,
}

/// Checks workers (`threads`) that have accessed the rings of a guest since `since` or longer. Reports the port as out of service if that
/// is too long.
pub fn check_workers(
    port: &PortState,
    threads: impl Iterator<Item = i32>,
    since: Instant,
    now: Instant,
) -> StuckWorkers {
    let (path, threads) = (&port.path, threads.collect::<Vec<_>>());
    let lasted = now.saturating_duration_since(since);
    // A runnable worker is not blocked by its guest: it waits for a core.
    let limit = if lasted >= STUCK_LIMIT && threads.iter().all(|thread| is_runnable(*thread)) {
        RUNNABLE_LIMIT
    } else {
        STUCK_LIMIT
    };
    let stuck = lasted >= limit && port.set_stuck(true);
    if stuck {
        let limit = limit.as_secs();
        let what = "a worker has not finished its access to the guest's rings";
        say(Level::Error, &format!("vhost '{path}': {what} for {limit} s: out of service"));
    }
    let blocked: Vec<_> = threads.into_iter().filter(|thread| blocked_writes::is_writing(*thread)).collect();
    if !blocked.is_empty() {
        let what = "a worker was blocked by a notification that the guest did not read";
        say(Level::Error, &format!("vhost '{path}': {what}"));
    }
    StuckWorkers { close: stuck || !blocked.is_empty(), blocked }
}

/// Whether this thread of the process runs or waits for a core. A thread that waits for a page of a guest (userfaultfd) is in another
/// state, so it is not runnable.
fn is_runnable(thread: i32) -> bool {
    let text = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap_or_default();
    // The state follows the name of the thread, which is in parentheses and may contain any character (proc_pid_stat(5)).
    text.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('R'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::thread::gettid;
    use std::sync::mpsc::channel;

    fn own() -> i32 {
        gettid().as_raw_nonzero().get()
    }

    #[test]
    fn a_waiting_thread_is_not_runnable() {
        assert!(is_runnable(own()));
        let (tell, told) = channel();
        let (end, ended) = channel::<()>();
        let waiting = std::thread::spawn(move || {
            tell.send(own()).unwrap();
            ended.recv().unwrap_err();
        });
        let thread = told.recv().unwrap();
        let began = Instant::now();
        while is_runnable(thread) {
            assert!(began.elapsed() < Duration::from_secs(10));
            std::thread::yield_now();
        }
        drop(end);
        waiting.join().unwrap();
        // A thread that was joined may still exist in the kernel for a moment.
        while is_runnable(thread) {
            assert!(began.elapsed() < Duration::from_secs(20));
            std::thread::yield_now();
        }
    }
}
