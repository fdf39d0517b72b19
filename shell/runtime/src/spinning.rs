//! Decides whether a thread polls for a while before it sleeps.
//!
//! A client that waits for each reply sends its next request some tens of microseconds after a reply. To wake a sleeping thread on
//! an idle core takes about as long (36 µs were measured), so a thread that polls meanwhile serves such a client about twice as fast.
//!
//! If the next event often comes later, or if the client needs this thread's core, polling is wasted. So after a failure some sleeps
//! begin at once; their number doubles with each failure.

use crate::poll_loop::{Ready, WaitSet};
use std::time::Duration;

/// How long the thread polls: longer than most clients need for their next request.
const TIME: Duration = Duration::from_micros(100);
/// Maximum number of sleeps that begin at once after a failure. With it, a client whose requests always come too late costs 1.5 µs for
/// each sleep.
const IMMEDIATE_SLEEPS_MAX: u32 = 64;

/// The decision for the next sleep of one thread.
#[derive(Debug, Default)]
pub struct Spinning {
    /// The number of the next sleeps that begin at once.
    immediate_sleeps: u32,
    /// The value that `immediate_sleeps` got at the last failure; 0 after a success. The next failure sets
    /// `immediate_sleeps` to twice this value plus one.
    after_last_failure: u32,
}

impl Spinning {
    /// To be called if a client is expected to send its next request soon: makes the next sleep begin with polling, unless this failed
    /// before.
    pub fn prepare(&mut self, set: &mut WaitSet<'_>) {
        match self.immediate_sleeps {
            0 => set.spin_first(TIME),
            _ => self.immediate_sleeps -= 1,
        }
    }

    /// To be called with the result of each sleep.
    pub fn record_sleep(&mut self, ready: &Ready) {
        match ready.came_while_spinning() {
            Some(true) => self.after_last_failure = 0,
            Some(false) => {
                self.after_last_failure = (self.after_last_failure * 2 + 1).min(IMMEDIATE_SLEEPS_MAX);
                self.immediate_sleeps = self.after_last_failure;
            }
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Clock, PollLoop};

    /// The number of sleeps, of `n`, that begin with polling. No event comes.
    fn count_polls(spinning: &mut Spinning, n: usize) -> usize {
        let poll = PollLoop::new(Clock::new()).unwrap();
        let spins = |_: &usize| {
            let mut set = WaitSet::new();
            set.no_longer_than(Duration::from_nanos(1));
            spinning.prepare(&mut set);
            let ready = poll.block(set);
            spinning.record_sleep(&ready);
            ready.came_while_spinning().is_some()
        };
        (0..n).filter(spins).count()
    }

    #[test]
    fn a_client_that_never_answers_in_time_costs_little() {
        let mut spinning = Spinning::default();
        // 1, 3, 7, 15, 31, 63 and then 64 sleeps at once follow the failures.
        assert_eq!(count_polls(&mut spinning, 1000), 7 + (999 - 126) / 65);
    }

    #[test]
    fn a_client_that_answers_in_time_is_waited_for_again() {
        let mut spinning = Spinning::default();
        count_polls(&mut spinning, 3);
        let poll = PollLoop::new(Clock::new()).unwrap();
        for expected in [None, None, None, Some(true), Some(true)] {
            poll.waker().wake();
            let mut set = WaitSet::new();
            spinning.prepare(&mut set);
            let ready = poll.block(set);
            spinning.record_sleep(&ready);
            assert_eq!(ready.came_while_spinning(), expected);
        }
    }
}
