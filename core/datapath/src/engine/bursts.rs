//! Frames that wait to be sent: how many make a burst, how long they wait, and which QoS queues they name.

use crate::port::FrameBatch;
use units::Cycles;

/// A burst is sent when it has grown to this.
pub(crate) const TX_BURST: usize = 32;

/// How long bursts that have not grown to [`TX_BURST`] wait for more (`tx-flush-interval`).
#[derive(Default)]
pub(crate) struct Hold {
    /// Cycles; 0: to the end of the turn.
    pub(crate) cycles: u64,
    since: Option<Cycles>,
}

impl Hold {
    /// Whether what waits has waited long enough at the end of a turn; `None`: it may wait no longer.
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

/// Stands in the list of waiting ports for the QoS queues of a port: frames that name one, and those that its shaper holds.
pub(crate) const QUEUES_OF: u32 = 1 << 31;

/// Frames of a port that name QoS queues, and which.
#[derive(Default)]
pub(crate) struct Queued {
    pub(crate) frames: FrameBatch,
    pub(crate) queues: Vec<u32>,
}
