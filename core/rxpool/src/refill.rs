//! Refilling: the number of buffers that a queue posts.
//!
//! In the design that this follows (ADR 35), a driver refills to the low watermark while the queue waits for an interrupt, and completely
//! while it is polled. A PMD thread polls all the time. So here a queue is busy after a poll that found a full burst, because then packets
//! arrive faster than they are taken. When the first burst after an idle time arrives, only the low watermark is posted, and packets
//! beyond it are lost; the next poll posts the allowance.

/// Number of polls without a full burst after which a queue is idle again: about 1 ms at 1 µs per poll. A queue becomes busy at once and
/// idle slowly, because a burst that finds too few buffers loses packets.
const QUIET_POLLS: u32 = 1024;

/// How a poll changed the state of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The state has not changed.
    Same,
    /// The queue was idle, and the poll found a full burst.
    BecameBusy,
    /// The queue has become idle.
    BecameIdle,
}

/// The refill state of one queue. The worker of the queue updates it.
#[derive(Clone, Copy, Debug)]
pub struct Refill {
    low: u32,
    high: u32,
    busy: bool,
    /// Number of polls without a full burst since the last full burst.
    quiet: u32,
}

impl Refill {
    /// An idle queue with these watermarks.
    pub fn new(low: u32, high: u32) -> Refill {
        Refill { low: low.min(high), high, busy: false, quiet: 0 }
    }

    /// Records a poll. `full`: it found a full burst.
    pub fn record_poll(&mut self, full: bool) -> Change {
        if full {
            self.quiet = 0;
            return if std::mem::replace(&mut self.busy, true) { Change::Same } else { Change::BecameBusy };
        }
        if !self.busy {
            return Change::Same;
        }
        self.quiet += 1;
        if self.quiet < QUIET_POLLS {
            return Change::Same;
        }
        self.set_idle();
        Change::BecameIdle
    }

    /// Makes the queue idle, because the worker sleeps or does not poll it for a while.
    pub fn set_idle(&mut self) {
        (self.busy, self.quiet) = (false, 0);
    }

    /// Returns whether the queue is busy.
    pub fn is_busy(&self) -> bool {
        self.busy
    }

    /// Number of buffers that should be posted, if the queue may hold `allowance`.
    pub fn target(&self, allowance: u32) -> u32 {
        if self.busy { allowance.min(self.high) } else { self.low.min(allowance) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_grows_at_once_and_shrinks_slowly() {
        let mut refill = Refill::new(128, 2048);
        assert_eq!((refill.record_poll(false), refill.target(5000)), (Change::Same, 128));
        assert_eq!((refill.record_poll(true), refill.target(5000)), (Change::BecameBusy, 2048));
        assert_eq!((refill.record_poll(true), refill.target(700)), (Change::Same, 700));
        for _ in 1..QUIET_POLLS {
            assert_eq!((refill.record_poll(false), refill.target(700)), (Change::Same, 700));
        }
        assert_eq!((refill.record_poll(false), refill.target(700)), (Change::BecameIdle, 128));
        assert_eq!((refill.record_poll(true), refill.record_poll(false)), (Change::BecameBusy, Change::Same));
        refill.set_idle();
        assert_eq!((refill.is_busy(), refill.target(64)), (false, 64));
    }

    #[test]
    fn the_ring_bounds_both_watermarks() {
        let mut refill = Refill::new(128, 64);
        assert_eq!(refill.target(5000), 64);
        refill.record_poll(true);
        assert_eq!(refill.target(5000), 64);
    }
}
