//! Frames to be sent: the burst of each port, how long small bursts wait, and the frames that select QoS queues.

use crate::port::{Frame, FrameBatch};
use crate::steering::OwnQueues;
use std::collections::BTreeMap;
use units::Cycles;

/// A burst with this many frames is sent at once.
pub(crate) const TX_BURST: usize = 32;

/// How long small bursts wait for more frames (`tx-flush-interval`).
#[derive(Default)]
pub(crate) struct Hold {
    /// Wait time in cycles; 0: until the end of the iteration.
    pub(crate) cycles: u64,
    /// A queue's [`return_buffers`](packet::queue::RxQueue::return_buffers) must be called at the end of this iteration.
    /// Before that, the tails of frames whose bursts wait longer are copied.
    pub(crate) needs_return: bool,
    since: Option<Cycles>,
}

impl Hold {
    /// Returns whether the bursts have waited long enough at time `at`, the end of an iteration. `None`: they must
    /// not wait any longer.
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

/// Flag in a port number in the list of waiting ports: the port has frames that select a QoS queue, or frames held by
/// its shaper.
pub(crate) const QOS_FLAG: u32 = 1 << 31;

/// Frames of a port that select QoS queues, and the queue of each.
#[derive(Default)]
pub(crate) struct QueuedFrames {
    pub(crate) frames: FrameBatch,
    pub(crate) queues: Vec<u32>,
}

/// The frames that a worker has collected for each port.
#[derive(Default)]
pub(crate) struct Bursts {
    /// Frames to send, by port number.
    pub(crate) outputs: Vec<FrameBatch>,
    /// Ports with frames to send. With [`QOS_FLAG`]: ports with frames that select a QoS queue, or with frames held
    /// by their shaper.
    pub(crate) waiting: Vec<u32>,
    /// Ports whose shapers hold frames of this worker: they are served in the next iteration.
    pub(crate) held: Vec<u32>,
    /// Frames to send that select QoS queues, by port number.
    pub(crate) queued: BTreeMap<u32, QueuedFrames>,
    pub(crate) hold: Hold,
    /// Which tx queues of the ports this worker uses.
    pub(crate) tx_queues: OwnQueues,
}

impl Bursts {
    /// `tx_queue`: the index of the worker's own tx queue.
    pub(crate) fn new(tx_queue: usize) -> Bursts {
        Bursts {
            tx_queues: OwnQueues { static_tx_qid: tx_queue, ..OwnQueues::default() },
            ..Bursts::default()
        }
    }

    /// Adds the port to `waiting`, the ports with frames to send.
    #[inline(always)]
    pub(crate) fn mark_waiting(&mut self, port: u32) {
        add_once(&mut self.waiting, port);
    }

    /// Copies the tails of all frames that wait to be sent.
    pub(crate) fn copy_tails(&self) {
        let queued = self.queued.values().flat_map(|queued| &queued.frames);
        self.outputs.iter().flatten().chain(queued).for_each(Frame::complete);
    }
}

/// Adds a port to a list unless it contains the port.
#[inline(always)]
pub(crate) fn add_once(ports: &mut Vec<u32>, port: u32) {
    if ports.is_empty() || !contains(ports, port) {
        ports.push(port);
    }
}

#[inline(never)]
fn contains(ports: &[u32], port: u32) -> bool {
    ports.contains(&port)
}
