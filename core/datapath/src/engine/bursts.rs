//! Frames to be sent: the size of a burst, how long smaller bursts wait, and the QoS queues that frames select.

use crate::port::FrameBatch;
use units::Cycles;

/// A burst of this size is sent at once.
pub(crate) const TX_BURST: usize = 32;

/// How long smaller bursts wait for more frames (`tx-flush-interval`).
#[derive(Default)]
pub(crate) struct Hold {
    /// Wait in cycles; 0: until the end of the iteration.
    pub(crate) cycles: u64,
    /// Frames of this iteration have tails that must go back: none may wait longer without its tail.
    pub(crate) lent: bool,
    since: Option<Cycles>,
}

impl Hold {
    /// Returns whether the bursts have waited long enough at the end of an iteration; `None`: they may wait
    /// no longer.
    #[inline]
    pub(crate) fn is_over(&mut self, at: Option<Cycles>) -> bool {
        let over = match at {
            Some(at) if self.cycles != 0 => (at - *self.since.get_or_insert(at)).0 >= self.cycles,
            _ => true,
        };
        if over {
            self.since = None;
        }
        over
    }
}

/// Marks the QoS queues of a port in the list of waiting ports: frames that select a queue, and frames that
/// its shaper holds.
pub(crate) const QUEUES_OF: u32 = 1 << 31;

/// Frames of a port that select QoS queues, and the queue of each.
#[derive(Default)]
pub(crate) struct Queued {
    pub(crate) frames: FrameBatch,
    pub(crate) queues: Vec<u32>,
}
