//! What a device gives to the datapath: rx queues and tx queues.
//!
//! The worker that polls a queue owns it (`&mut`); a tx queue that several workers use stands behind a lock of the
//! datapath. Neither call may block.

use crate::frame::{FrameBatch, FramePool};

/// How many frames one `rx` call may bring.
pub const RX_BURST: usize = 64;

/// What a receive brought beside the frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RxResult {
    /// Packets that the queue had but could not deliver (too long, no buffer).
    pub dropped: u32,
    /// More frames are known to be waiting.
    pub more: bool,
}

/// One receive queue of a device.
pub trait RxQueue: Send {
    /// Appends up to `max` received frames to `out`, their buffers from `pool`. Returns at once when there is none.
    fn rx(&mut self, pool: &mut FramePool, out: &mut FrameBatch, max: usize) -> RxResult;
    /// How many packets of a guest wait in it; `None` for a queue that is no guest's. Asked by who measures.
    fn waiting(&mut self) -> Option<u32> {
        None
    }
    /// Asks the device to tell when frames come (`on`), or no more; how it tells is between it and who owns its
    /// descriptor. False: it cannot. What came before it was asked is to be looked for afterwards.
    fn arm(&mut self, _on: bool) -> bool {
        false
    }
}

/// What became of the frames of a send: `sent + dropped + too_long` is the number given, but of a
/// policer or a shaper (`TxQueue::take_qos`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxResult {
    /// Frames the device took.
    pub sent: u32,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Frames it did not take since its ring was full or the link refused.
    pub dropped: u32,
    /// Frames it did not take since they were longer than its MTU.
    pub too_long: u32,
}

/// What a policer or a shaper did with the frames of a send, and with those that a shaper held before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QosResult {
    /// Frames the device took.
    pub sent: u32,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Frames it did not take since its ring was full or the link refused.
    pub dropped: u32,
    /// Frames it did not take since they were longer than its MTU.
    pub too_long: u32,
    /// Frames that exceed a rate, or whose queue was full: the last ones of those that are left in the batch.
    pub refused: u32,
    /// Frames are held: the sender has to come back, with or without more.
    pub holds: bool,
}

impl QosResult {
    /// Adds what the device did with frames.
    pub fn add(&mut self, sent: &TxResult) {
        self.sent += sent.sent;
        self.sent_bytes += sent.sent_bytes;
        self.dropped += sent.dropped;
        self.too_long += sent.too_long;
    }
}

/// One transmit queue of a device.
pub trait TxQueue: Send {
    /// Sends the frames in their order. What the device keeps, it removes from `frames`; the caller frees the rest,
    /// sent or not.
    fn tx(&mut self, frames: &mut FrameBatch) -> TxResult;
    /// The receiver takes TCP frames of up to 64 KB that are to be cut: it is worth while to merge what comes in segments.
    fn takes_large(&self) -> bool {
        false
    }
    /// The same of frames that name QoS queues (`set_queue`), one each; a device without such queues does not care.
    fn tx_queued(&mut self, frames: &mut FrameBatch, _queues: &[u32]) -> TxResult {
        self.tx(frames)
    }
    /// What a policer or a shaper did in the last `tx` or `tx_queued`, whose result was all zeros; asked only then. `None`: it is
    /// neither.
    fn take_qos(&mut self) -> Option<QosResult> {
        None
    }
    /// The bytes of a frame that the last `tx` dropped, or the first of them; asked only if it dropped one. `None`: it dropped
    /// the last of those that it left in `frames`, as a device does that takes frames up to the first that it cannot take.
    fn refused(&self) -> Option<&[u8]> {
        None
    }
}

/// Takes all frames and keeps none: a device without a cost, to measure what is in front of it.
#[derive(Debug)]
pub struct Sink;

impl TxQueue for Sink {
    fn tx(&mut self, frames: &mut FrameBatch) -> TxResult {
        let sent_bytes = frames.iter().map(|f| f.len() as u64).sum();
        TxResult { sent: frames.len() as u32, sent_bytes, ..TxResult::default() }
    }
}
