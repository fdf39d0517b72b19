//! Rx queues and tx queues: the interface that a device provides to the datapath.
//!
//! The worker that polls an rx queue owns it (`&mut`). A tx queue that several workers use is behind a lock of the
//! datapath. No call may block.

use crate::frame::{FrameBatch, FramePool};
use std::num::NonZeroU32;

/// Maximum number of frames that one `rx` call returns.
pub const RX_BURST: usize = 64;

/// Result of a receive besides the frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RxResult {
    /// Packets that the queue had but could not deliver (too long, no buffer).
    pub dropped: u32,
    /// More frames are known to be waiting.
    pub more: bool,
    /// The port that received the frames, if several ports share the queue.
    pub port: Option<NonZeroU32>,
    /// Some frames have tails that their sender gets back by [`RxQueue::give_back`], or the sender's buffers are [held](crate::held).
    pub lent: bool,
}

/// One receive queue of a device.
pub trait RxQueue: Send {
    /// Appends up to `max` received frames to `out`, in buffers from `pool`. Returns at once if there are none.
    fn rx(&mut self, pool: &mut FramePool, out: &mut FrameBatch, max: usize) -> RxResult;
    /// Ends the loan of the tails of received frames, and releases what is [held](crate::held). To be called after each `rx` that lent
    /// some, by the same thread, when all of these frames are complete or freed. Returns false if one is not: then the queue receives
    /// nothing until a later call.
    fn give_back(&mut self) -> bool {
        true
    }
    /// Number of packets that wait in a guest's queue; `None` for other queues. Used for measurements only.
    fn waiting(&mut self) -> Option<u32> {
        None
    }
    /// Enables (`on`) or disables notification when frames arrive. The device defines how it notifies the owner of
    /// its descriptor. Returns false if it cannot. Frames that arrived before this call are not notified: poll once
    /// afterwards.
    fn arm(&mut self, _on: bool) -> bool {
        false
    }
}

/// Result of a send. `sent + dropped + too_long` is the number of frames that were passed, except for a policer or a
/// shaper (`TxQueue::take_qos`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxResult {
    /// Frames that the device accepted.
    pub sent: u32,
    /// Bytes of these frames.
    pub sent_bytes: u64,
    /// Frames that the device refused because its ring was full or the link was down.
    pub dropped: u32,
    /// Frames that the device refused because they exceeded its MTU.
    pub too_long: u32,
}

/// Result of a policer or shaper for the frames of a send, and for frames that a shaper held before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QosResult {
    /// Frames that the device accepted.
    pub sent: u32,
    /// Bytes of these frames.
    pub sent_bytes: u64,
    /// Frames that the device refused because its ring was full or the link was down.
    pub dropped: u32,
    /// Frames that the device refused because they exceeded its MTU.
    pub too_long: u32,
    /// Frames that exceed a rate, or whose queue was full; they are the last ones left in the batch.
    pub refused: u32,
    /// The shaper holds frames: the sender must call again, even without more frames.
    pub holds: bool,
}

impl QosResult {
    /// Adds the device's result.
    pub fn add(&mut self, sent: &TxResult) {
        self.sent += sent.sent;
        self.sent_bytes += sent.sent_bytes;
        self.dropped += sent.dropped;
        self.too_long += sent.too_long;
    }
}

/// One transmit queue of a device.
pub trait TxQueue: Send {
    /// Sends the frames in order. Frames that the device keeps are removed from `frames`; the caller frees the rest,
    /// sent or not.
    fn tx(&mut self, frames: &mut FrameBatch) -> TxResult;
    /// Returns whether the receiver accepts TCP frames of up to 64 KB, so that merging segments is useful.
    fn takes_large(&self) -> bool {
        false
    }
    /// Whether `tx` calls [`held::release`](crate::held::release) itself, immediately before the receiver can see the first frame. For
    /// other devices the caller does so before `tx`.
    fn releases_held(&self) -> bool {
        false
    }
    /// As `tx`, for frames that each select a QoS queue (`set_queue`). A device without such queues ignores the
    /// selection.
    fn tx_queued(&mut self, frames: &mut FrameBatch, _queues: &[u32]) -> TxResult {
        self.tx(frames)
    }
    /// Result of a policer or a shaper for the last `tx` or `tx_queued`; called only if the result of that call was
    /// all zeros. `None` if this is neither.
    fn take_qos(&mut self) -> Option<QosResult> {
        None
    }
    /// The bytes of a frame that the last `tx` dropped, or their beginning; called only if it dropped one. `None`: it
    /// dropped the last frame that it left in `frames`, which is what a device does that stops at the first frame it
    /// cannot send.
    fn refused(&self) -> Option<&[u8]> {
        None
    }
}

/// Accepts and frees all frames: a device without costs, for measurements.
#[derive(Debug)]
pub struct Sink;

impl TxQueue for Sink {
    fn tx(&mut self, frames: &mut FrameBatch) -> TxResult {
        let sent_bytes = frames.iter().map(|f| f.len() as u64).sum();
        TxResult { sent: frames.len() as u32, sent_bytes, ..TxResult::default() }
    }
}

/// Receives the same packets repeatedly, in order: a device without costs, for measurements.
#[derive(Debug)]
pub struct Repeat {
    packets: Vec<Vec<u8>>,
    next: usize,
    burst: usize,
}

impl Repeat {
    /// Receives these packets, at most `burst` at once. There must be a packet.
    pub fn new(packets: Vec<Vec<u8>>, burst: usize) -> Repeat {
        Repeat { packets, next: 0, burst }
    }
}

impl RxQueue for Repeat {
    fn rx(&mut self, pool: &mut FramePool, out: &mut FrameBatch, max: usize) -> RxResult {
        for _ in 0..max.min(self.burst) {
            out.extend(pool.frame_of(&self.packets[self.next]));
            self.next = (self.next + 1) % self.packets.len();
        }
        RxResult::default()
    }
}
