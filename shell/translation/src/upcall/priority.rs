//! Handler priority: a handler thread under a long load lowers its priority, because guests may run on its core.
//!
//! A storm of misses keeps handlers busy without end. At normal priority they would take half a core from a guest
//! whose packets have their megaflows. So a thread that has worked for long without emptying the queue gets the lowest
//! share, until it has emptied it. Measured in thread CPU time, so time spent waiting for a core is not counted. If no
//! other thread wants the core, nothing changes.

use runtime::cpu_time::thread_time;
use rustix::process::{getpriority_process, setpriority_process};

/// CPU time (30 ms) of uninterrupted work after which the priority is lowered: a burst of some ten thousand new flows
/// is served in less.
const LONG_WORK_NS: u64 = 30_000_000;
/// Rounds between two readings of the clock, which is a system call.
const ROUNDS: u32 = 16;
/// The lowered priority (`nice`): a thirtieth of a contended core.
const LOW_NICE: i32 = 15;

/// The priority of one thread.
#[derive(Debug)]
pub struct HandlerPriority {
    usual: Option<i32>,
    rounds: u32,
    /// When the work began, in CPU time of the thread.
    since: Option<u64>,
    last: bool,
}

impl HandlerPriority {
    /// For the calling thread. Its priority is only ever lowered if it has the right to raise it again, which is tried
    /// here.
    pub fn new() -> HandlerPriority {
        let usual = getpriority_process(None).ok().filter(|usual| *usual < LOW_NICE);
        let may_return =
            |usual: &i32| [usual - 1, *usual].iter().all(|nice| setpriority_process(None, *nice).is_ok());
        HandlerPriority { usual: usual.filter(may_return), rounds: 0, since: None, last: false }
    }

    /// To be called after each round of work.
    pub fn round_done(&mut self) {
        self.rounds += 1;
        if self.usual.is_some() && self.rounds.is_multiple_of(ROUNDS) && self.is_long(thread_time()) {
            // The same call worked in `new`.
            let _ = setpriority_process(None, LOW_NICE);
        }
    }

    /// Returns true once when the work has lasted long enough.
    fn is_long(&mut self, now: u64) -> bool {
        let since = *self.since.get_or_insert(now);
        if self.last || now.wrapping_sub(since) < LONG_WORK_NS {
            return false;
        }
        self.last = true;
        true
    }

    /// To be called when the queue is empty: restores the usual priority.
    pub fn queue_emptied(&mut self) {
        self.since = None;
        if std::mem::take(&mut self.last)
            && let Some(usual) = self.usual
        {
            let _ = setpriority_process(None, usual);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_long_work_counts_and_only_once() {
        let mut priority = HandlerPriority { usual: None, rounds: 0, since: None, last: false };
        assert!(!priority.is_long(1000));
        assert!(!priority.is_long(LONG_WORK_NS));
        assert!(priority.is_long(1000 + LONG_WORK_NS));
        assert!(!priority.is_long(1001 + LONG_WORK_NS));
        priority.queue_emptied();
        assert!(!priority.is_long(1002 + LONG_WORK_NS));
        assert!(priority.is_long(1002 + 2 * LONG_WORK_NS));
    }

    #[test]
    fn the_priority_is_lowered_and_restored() {
        let thread = std::thread::spawn(|| {
            let mut priority = HandlerPriority::new();
            let Some(usual) = priority.usual else { return };
            priority.since = Some(thread_time().wrapping_sub(LONG_WORK_NS));
            (0..ROUNDS).for_each(|_| priority.round_done());
            assert_eq!(getpriority_process(None), Ok(LOW_NICE));
            priority.queue_emptied();
            assert_eq!(getpriority_process(None), Ok(usual));
        });
        thread.join().unwrap();
    }
}
