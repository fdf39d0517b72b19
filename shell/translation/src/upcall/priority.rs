//! Handler priority: a handler thread under sustained load lowers its priority, because guests may run on its core.
//!
//! A storm of misses keeps handlers busy without end. At normal priority a handler would use half of the core of a guest
//! whose own packets need no upcalls. So a thread that has worked for long without emptying the upcall queue lowers its
//! priority until the queue is empty. The work is measured in thread CPU time, so time spent waiting for a core is not
//! counted. If no other thread needs the core, the lower priority has no effect.

use runtime::cpu_time::thread_time;
use rustix::process::{getpriority_process, setpriority_process};

/// CPU time in ns for which a thread works without emptying the queue before its priority is lowered (30 ms): a burst of
/// ten thousand new flows is served in less time.
const LONG_WORK_NS: u64 = 30_000_000;
/// Rounds of work per reading of the clock, because each reading is a system call.
const ROUNDS_PER_READING: u32 = 16;
/// The lowered priority (nice value): the thread gets a thirtieth of a core that it shares with a thread of nice 0.
const LOW_NICE: i32 = 15;

/// The priority of one thread.
#[derive(Debug)]
pub struct HandlerPriority {
    /// The normal nice value; `None`: the priority is never lowered.
    usual: Option<i32>,
    /// Rounds of work so far.
    rounds: u32,
    /// When the work began, in CPU time of the thread.
    work_began: Option<u64>,
    /// The priority is lowered.
    is_low: bool,
}

impl HandlerPriority {
    /// The priority of the calling thread. It is lowered later only if the thread has the right to raise it again. This
    /// function tests that right: it raises the priority and sets it back.
    pub fn new() -> HandlerPriority {
        let usual = getpriority_process(None).ok().filter(|usual| *usual < LOW_NICE);
        let may_return =
            |usual: &i32| [usual - 1, *usual].iter().all(|nice| setpriority_process(None, *nice).is_ok());
        HandlerPriority { usual: usual.filter(may_return), rounds: 0, work_began: None, is_low: false }
    }

    /// To be called after each round of work.
    pub fn round_done(&mut self) {
        self.rounds += 1;
        if self.usual.is_some()
            && self.rounds.is_multiple_of(ROUNDS_PER_READING)
            && self.mark_low_if_long(thread_time())
        {
            // Failure is not expected: `usual` is set only if such calls succeeded in `new`.
            let _ = setpriority_process(None, LOW_NICE);
        }
    }

    /// Returns true once, when the work has lasted for [`LONG_WORK_NS`]: the caller then lowers the priority.
    fn mark_low_if_long(&mut self, now: u64) -> bool {
        let work_began = *self.work_began.get_or_insert(now);
        if self.is_low || now.wrapping_sub(work_began) < LONG_WORK_NS {
            return false;
        }
        self.is_low = true;
        true
    }

    /// To be called when the queue is empty: restores the usual priority.
    pub fn queue_emptied(&mut self) {
        self.work_began = None;
        if std::mem::take(&mut self.is_low)
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
        let mut priority = HandlerPriority { usual: None, rounds: 0, work_began: None, is_low: false };
        assert!(!priority.mark_low_if_long(1000));
        assert!(!priority.mark_low_if_long(LONG_WORK_NS));
        assert!(priority.mark_low_if_long(1000 + LONG_WORK_NS));
        assert!(!priority.mark_low_if_long(1001 + LONG_WORK_NS));
        priority.queue_emptied();
        assert!(!priority.mark_low_if_long(1002 + LONG_WORK_NS));
        assert!(priority.mark_low_if_long(1002 + 2 * LONG_WORK_NS));
    }

    #[test]
    fn the_priority_is_lowered_and_restored() {
        let thread = std::thread::spawn(|| {
            let mut priority = HandlerPriority::new();
            let Some(usual) = priority.usual else { return };
            priority.work_began = Some(thread_time().wrapping_sub(LONG_WORK_NS));
            (0..ROUNDS_PER_READING).for_each(|_| priority.round_done());
            assert_eq!(getpriority_process(None), Ok(LOW_NICE));
            priority.queue_emptied();
            assert_eq!(getpriority_process(None), Ok(usual));
        });
        thread.join().unwrap();
    }
}
