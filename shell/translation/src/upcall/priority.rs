//! How much of its core a handler thread asks for beside others that want it: guests may run there, too.
//!
//! A storm of misses keeps handlers busy without end, and with as much right as anybody else they take half a core from a
//! guest whose packets have their megaflows. So a thread that has worked for long without once emptying the queue comes
//! last, until it has emptied it. Work counts, not time: who merely waited for the processor owes nothing. Where nobody
//! else wants the core nothing changes.

use runtime::cpu_time::thread_time;
use rustix::process::{getpriority_process, setpriority_process};

/// Work without a rest after which a thread comes last: a burst of some ten thousand new flows is over before.
const LONG_NS: u64 = 30_000_000;
/// Rounds between two looks at the clock, which is a system call.
const ROUNDS: u32 = 16;
/// How a thread that comes last is scheduled (`nice`): a thirtieth of a core that somebody else wants.
const LAST: i32 = 15;

/// Of one thread.
#[derive(Debug)]
pub struct HandlerPriority {
    usual: Option<i32>,
    rounds: u32,
    /// When the work began, in time of the processor.
    since: Option<u64>,
    last: bool,
}

impl HandlerPriority {
    /// Of the calling thread. One that could not come back to where it is stays there: who may come first may come back.
    pub fn new() -> HandlerPriority {
        let usual = getpriority_process(None).ok().filter(|usual| *usual < LAST);
        let may_return =
            |usual: &i32| [usual - 1, *usual].iter().all(|nice| setpriority_process(None, *nice).is_ok());
        HandlerPriority { usual: usual.filter(may_return), rounds: 0, since: None, last: false }
    }

    /// The thread has done a round of work.
    pub fn worked(&mut self) {
        self.rounds += 1;
        if self.usual.is_some() && self.rounds.is_multiple_of(ROUNDS) && self.is_long(thread_time()) {
            // It worked at the start.
            let _ = setpriority_process(None, LAST);
        }
    }

    /// It works long, since just now.
    fn is_long(&mut self, now: u64) -> bool {
        let since = *self.since.get_or_insert(now);
        if self.last || now.wrapping_sub(since) < LONG_NS {
            return false;
        }
        self.last = true;
        true
    }

    /// There is nothing to do.
    pub fn rests(&mut self) {
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
    fn only_long_work_is_long_and_only_once() {
        let mut priority = HandlerPriority { usual: None, rounds: 0, since: None, last: false };
        assert!(!priority.is_long(1000));
        assert!(!priority.is_long(LONG_NS));
        assert!(priority.is_long(1000 + LONG_NS));
        assert!(!priority.is_long(1001 + LONG_NS));
        priority.rests();
        assert!(!priority.is_long(1002 + LONG_NS));
        assert!(priority.is_long(1002 + 2 * LONG_NS));
    }

    #[test]
    fn it_comes_last_and_back() {
        let thread = std::thread::spawn(|| {
            let mut priority = HandlerPriority::new();
            let Some(usual) = priority.usual else { return };
            priority.since = Some(thread_time().wrapping_sub(LONG_NS));
            (0..ROUNDS).for_each(|_| priority.worked());
            assert_eq!(getpriority_process(None), Ok(LAST));
            priority.rests();
            assert_eq!(getpriority_process(None), Ok(usual));
        });
        thread.join().unwrap();
    }
}
