//! Rx queues and tx queues: the interface that a device provides to the datapath.
//!
//! The worker that polls an rx queue owns it (`&mut`). A tx queue that several workers use is protected by a lock of the datapath. No call
//! may block.

use crate::frame::{FrameBatch, FramePool};
use std::num::NonZeroU32;

/// Maximum number of frames that one `rx` call returns.
pub const RX_BURST: usize = 64;

/// Result of [`RxQueue::rx`] besides the frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RxResult {
    /// Number of packets that the queue had but could not deliver (too long, no buffer).
    pub dropped: u32,
    /// The queue knows that more frames are waiting.
    pub more: bool,
    /// The port that received the frames, if several ports share the queue.
    pub port: Option<NonZeroU32>,
    /// [`RxQueue::return_buffers`] must be called: some frames have tails in the memory of their sender, or buffers of the sender are
    /// [held](crate::held_buffers).
    pub needs_return: bool,
}

/// One receive queue of a device.
pub trait RxQueue: Send {
    /// Appends up to `max` received frames, in buffers from `pool`, to `out`. Returns at once if there are none.
    fn rx(&mut self, pool: &mut FramePool, out: &mut FrameBatch, max: usize) -> RxResult;
    /// Returns the buffers of absent tails to their sender, and [held](crate::held_buffers) buffers. Must be called after each `rx` whose
    /// result has `needs_return`, by the same thread, when all frames of that `rx` are complete or freed. Returns false if a frame is
    /// neither: then the queue receives nothing until a later call returns true.
    fn return_buffers(&mut self) -> bool {
        true
    }
    /// Number of packets that wait in a guest's queue; `None` for other queues. Only for measurements.
    fn waiting(&mut self) -> Option<u32> {
        None
    }
    /// Enables (`on`) or disables notification when frames arrive. The device defines how it notifies; for example, a file
    /// descriptor becomes readable. Returns false if the device does not support notification. Frames that arrived before this call
    /// cause no notification: poll once afterwards.
    fn arm(&mut self, _on: bool) -> bool {
        false
    }
}

/// Result of [`TxQueue::tx`]. `sent + dropped + too_long` is the number of frames that were passed, except for a policer or a shaper
/// ([`TxQueue::take_qos`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxResult {
    /// Number of frames that the device accepted.
    pub sent: u32,
    /// Total length of these frames, in bytes.
    pub sent_bytes: u64,
    /// Number of frames that the device refused because its ring was full or the link was down.
    pub dropped: u32,
    /// Number of frames that the device refused because they exceeded its MTU.
    pub too_long: u32,
}

impl TxResult {
    /// Adds the result of the segments of a frame of `len` bytes: it counts as one frame, which was sent if one of its segments was.
    pub fn add_segments(&mut self, segments: &TxResult, len: usize) {
        match (segments.sent, segments.dropped, segments.too_long) {
            (1.., ..) => {
                self.sent += 1;
                self.sent_bytes += len as u64;
            }
            (0, 0, 1..) => self.too_long += 1,
            _ => self.dropped += 1,
        }
    }
}

/// Result of a policer or shaper for the frames of a send, and for frames that a shaper held before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QosResult {
    /// Number of frames that the device accepted.
    pub sent: u32,
    /// Total length of these frames, in bytes.
    pub sent_bytes: u64,
    /// Number of frames that the device refused because its ring was full or the link was down.
    pub dropped: u32,
    /// Number of frames that the device refused because they exceeded its MTU.
    pub too_long: u32,
    /// Number of frames that the policer or shaper dropped: they exceeded a rate, or their queue was full.
    /// They are the last frames of the batch.
    pub qos_dropped: u32,
    /// The shaper holds frames: the sender must call again, even without more frames.
    pub holds: bool,
}

impl QosResult {
    /// Adds the result of a device.
    pub fn add(&mut self, sent: &TxResult) {
        self.sent += sent.sent;
        self.sent_bytes += sent.sent_bytes;
        self.dropped += sent.dropped;
        self.too_long += sent.too_long;
    }
}

/// One transmit queue of a device.
pub trait TxQueue: Send {
    /// Transmits the frames in order. Frames that the device keeps are removed from `frames`; the caller frees the rest, whether sent or
    /// not.
    fn tx(&mut self, frames: &mut FrameBatch) -> TxResult;
    /// Returns whether the receiver accepts TCP frames of up to 64 KiB, so that merging segments is useful.
    fn accepts_large(&self) -> bool {
        false
    }
    /// Returns whether `tx` itself calls [`held_buffers::release`](crate::held_buffers::release), immediately before the receiver can see
    /// the first frame. For other devices the caller must do so before `tx`.
    fn releases_held_buffers(&self) -> bool {
        false
    }
    /// [`tx`](Self::tx) for frames that each select a QoS queue (`set_queue`). A device without QoS queues ignores the selection.
    fn tx_queued(&mut self, frames: &mut FrameBatch, _queues: &[u32]) -> TxResult {
        self.tx(frames)
    }
    /// Result of a policer or a shaper for the last `tx` or `tx_queued`. Called only if the result of that call was all zeros. `None`: this
    /// queue is neither a policer nor a shaper.
    fn take_qos(&mut self) -> Option<QosResult> {
        None
    }
    /// The bytes of a frame that the last `tx` dropped, or their beginning. Called only if `tx` dropped a frame. `None`: the dropped frame
    /// is the last one that `tx` left in `frames`, as for a device that stops at the first frame that it cannot transmit.
    fn refused(&self) -> Option<&[u8]> {
        None
    }
}

/// A tx queue that accepts all frames and keeps none, so that the caller frees them: a device without costs, for measurements.
#[derive(Debug)]
pub struct Sink;

impl TxQueue for Sink {
    fn tx(&mut self, frames: &mut FrameBatch) -> TxResult {
        let sent_bytes = frames.iter().map(|f| f.len() as u64).sum();
        TxResult { sent: frames.len() as u32, sent_bytes, ..TxResult::default() }
    }
}

/// An rx queue that receives the same packets repeatedly, in order: a device without costs, for measurements.
#[derive(Debug)]
pub struct Repeat {
    packets: Vec<Vec<u8>>,
    next: usize,
    burst: usize,
}

impl Repeat {
    /// Makes a queue that receives these packets, at most `burst` at once. There must be at least one packet.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_segments_of_a_frame_count_as_one() {
        let result = |sent, dropped, too_long| TxResult { sent, dropped, too_long, ..TxResult::default() };
        let mut all = TxResult::default();
        for segments in [result(2, 1, 1), result(0, 1, 1), result(0, 0, 2), result(0, 0, 0)] {
            all.add_segments(&segments, 5000);
        }
        assert_eq!(all, TxResult { sent_bytes: 5000, ..result(1, 2, 1) });
    }
}
