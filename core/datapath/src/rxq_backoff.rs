//! Rx queue backoff: a queue most of whose packets miss and cannot be parked is polled less often while other queues have work.
//!
//! A miss that cannot be parked (`park`) is translated by the worker within its budget (`upcall_budget`), or dropped.
//! Either costs several times as much as a packet with a megaflow. If more than half of the packets of a poll could
//! not be parked, the worker skips the queue for a number of iterations that doubles with each such poll. Meanwhile
//! the packets wait in the queue's ring, or the device drops them there, which costs the worker nothing. An iteration
//! in which no other queue delivers packets ends the wait.
//!
//! The decision uses counts only: no clock, no randomness.

use crate::port::RX_BURST;

/// Maximum number of iterations that a queue is skipped after a poll. So it is polled at least once in 64 iterations, or in
/// 256 while other queues deliver full bursts.
const ITERATIONS_MAX: u32 = 63;
/// The wait is counted in quarters of an iteration. If another queue delivers a full burst, so that more packets
/// probably wait there, the iteration counts as one quarter. An iteration in which other queues deliver fewer packets
/// counts as four quarters.
const PARTS_OF_ITERATION: u32 = 4;

/// The size of a burst, in three classes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum BurstSize {
    #[default]
    Nothing,
    Some,
    /// A full burst.
    FullBurst,
}

impl BurstSize {
    pub(crate) fn of(packets: u64) -> BurstSize {
        match packets {
            0 => BurstSize::Nothing,
            n if n < RX_BURST as u64 => BurstSize::Some,
            _ => BurstSize::FullBurst,
        }
    }
}

/// The backoff of one queue.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RxqBackoff {
    /// Number of iterations for which the queue is skipped after each poll.
    iterations: u32,
    /// Remaining wait, in quarters of an iteration.
    left: u32,
}

impl RxqBackoff {
    /// Returns whether the queue is skipped in this iteration. `others`: the largest burst of the previous
    /// iteration, of the queues whose packets could all be parked.
    #[inline]
    pub(crate) fn skips(&mut self, others: BurstSize) -> bool {
        if self.left == 0 {
            return false;
        }
        self.left = match others {
            BurstSize::Nothing => 0,
            BurstSize::Some => self.left.saturating_sub(PARTS_OF_ITERATION),
            BurstSize::FullBurst => self.left - 1,
        };
        self.left != 0
    }

    /// Returns whether the queue is in backoff at present.
    pub(crate) fn is_waiting(&self) -> bool {
        self.left != 0
    }

    /// Updates the backoff after a poll that delivered `packets`, of which `overflow` could not be parked.
    #[inline]
    pub(crate) fn polled(&mut self, packets: u64, overflow: u64) {
        if 2 * overflow > packets {
            self.iterations = (2 * self.iterations + 1).min(ITERATIONS_MAX);
        } else if self.iterations != 0 {
            self.iterations /= 2;
        }
        // The iteration of the poll itself is counted, too.
        self.left = if self.iterations == 0 { 0 } else { PARTS_OF_ITERATION * (self.iterations + 1) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number of polls in this many iterations of a queue that delivers 32 packets, of which `overflow`
    /// cannot be parked.
    fn polls(iterations: u32, overflow: u64, others: u64) -> u32 {
        let mut backoff = RxqBackoff::default();
        let mut polls = 0;
        for _ in 0..iterations {
            if !backoff.skips(BurstSize::of(others)) {
                backoff.polled(32, overflow);
                polls += 1;
            }
        }
        polls
    }

    #[test]
    fn a_queue_that_overflows_waits_while_others_are_served() {
        assert_eq!(polls(6400, 0, 63), 6400);
        assert_eq!(polls(6400, 16, 63), 6400);
        assert!((100..110).contains(&polls(6400, 17, 63)), "{}", polls(6400, 17, 63));
        assert!((25..35).contains(&polls(6400, 17, 64)), "{}", polls(6400, 17, 64));
        // No other queue has packets.
        assert_eq!(polls(6400, 32, 0), 6400);
    }

    #[test]
    fn backoff_ends_when_misses_can_be_parked_again() {
        let mut backoff = RxqBackoff::default();
        (0..20).for_each(|_| backoff.polled(32, 32));
        (0..6).for_each(|_| backoff.polled(32, 3));
        assert!(!backoff.skips(BurstSize::FullBurst));
    }

    #[test]
    fn an_iteration_without_other_packets_ends_the_wait() {
        let mut backoff = RxqBackoff::default();
        (0..20).for_each(|_| backoff.polled(32, 32));
        assert!(backoff.skips(BurstSize::Some));
        assert!(!backoff.skips(BurstSize::Nothing));
        assert!(!backoff.skips(BurstSize::Some));
    }
}
