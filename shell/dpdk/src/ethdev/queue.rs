//! The queues of a device: a receive queue converts mbufs to frames, a transmit queue converts frames to mbufs.
//!
//! The driver is called once per burst through the C shim; the work for each packet is done in Rust.

use super::run::Running;
use crate::mbuf::{self, Burst, Mbuf};
use crate::offload_request::OffloadRequest;
use dpdk_sys as sys;
use packet::frame::{Frame, FrameBatch, FramePool};
use packet::offload::Offload;
use packet::queue::{RxQueue, RxResult, TxQueue, TxResult};
use packet::segment;
use std::sync::{Arc, PoisonError};
use std::vec::Drain;

/// A receive queue. It has cache lines of its own, because another thread may poll the next queue.
#[repr(align(128))]
pub struct EthRx {
    running: Arc<Running>,
    queue: u16,
    burst: Burst,
}

impl EthRx {
    pub(super) fn new(running: Arc<Running>, queue: u16) -> EthRx {
        EthRx { running, queue, burst: Burst::new() }
    }
}

impl RxQueue for EthRx {
    #[inline]
    fn rx(&mut self, pool: &mut FramePool, out: &mut FrameBatch, max: usize) -> RxResult {
        if !self.running.claim.is_up() {
            return RxResult::default();
        }
        let (port, queue) = (self.running.claim.port, self.queue);
        // SAFETY: the device runs as long as `running` is held, and only `self` polls this queue.
        let (n, lost) = unsafe {
            self.burst.receive(max, pool, out, |mbufs, n| sys::sluice_rx_burst(port, queue, mbufs, n))
        };
        if lost > 0 {
            self.running.claim.counters.count_rx_lost(lost as u64);
        }
        let more = n > 0 && n >= max.min(packet::queue::RX_BURST);
        RxResult { dropped: lost as u32, more, ..RxResult::default() }
    }
}

/// A transmit queue. Several `EthTx` may share one queue of the device. It has cache lines of its own, because another thread may send to the
/// next queue.
#[repr(align(128))]
pub struct EthTx {
    running: Arc<Running>,
    queue: u16,
    burst: Burst,
    /// Total length of the packets in `burst`.
    bytes: u64,
    /// The burst contains a packet with an offload request, so the driver must prepare the burst before it is sent.
    has_requests: bool,
    /// An empty list whose memory is reused.
    spare: FrameBatch,
    /// The bytes of the first packet that the device did not accept, of the last burst with such a packet.
    refused: Vec<u8>,
}

impl EthTx {
    pub(super) fn new(running: Arc<Running>, queue: u16) -> EthTx {
        let (burst, spare) = (Burst::new(), FrameBatch::new());
        EthTx { running, queue, burst, bytes: 0, has_requests: false, spare, refused: Vec::new() }
    }

    /// Appends a packet to the burst, and sends the burst if it is full.
    fn push_and_send(&mut self, mbuf: Mbuf, len: usize, result: &mut TxResult) {
        self.bytes += len as u64;
        self.burst.push(mbuf);
        if self.burst.is_full() {
            self.send(result);
        }
    }

    /// Appends frames that need no special handling to the burst, and sends the burst whenever it is full. Stops at the first frame that
    /// needs special handling, and returns it.
    #[inline]
    fn fill_and_send(&mut self, frames: &mut Drain<'_, Frame>, result: &mut TxResult) -> Option<Frame> {
        loop {
            let (bytes, special) = self.burst.fill(frames, self.running.max_len);
            self.bytes += bytes;
            if !self.burst.is_full() {
                return special;
            }
            self.send(result);
        }
    }

    /// Appends copies of the frames before the first one that is in an mbuf or needs more than a copy. Sends the burst whenever it is
    /// full. Returns how many frames were copied. One call copies many frames, because ports
    /// of other types (guests, `afxdp`, tunnels) deliver batches of them.
    fn copy_and_send(&mut self, frames: &[Frame], result: &mut TxResult) -> usize {
        let max_len = self.running.max_len;
        let is_copied = |f: &&Frame| !mbuf::is_in_mbuf(f) && !f.has_offload_state() && f.len() <= max_len;
        let mut done = 0;
        loop {
            let n = frames[done..].iter().take(self.burst.free_slots()).take_while(is_copied).count();
            let copied =
                if n > 0 { self.burst.copy(&frames[done..done + n], &self.running.mempool) } else { None };
            let Some(bytes) = copied else { return done };
            self.bytes += bytes;
            done += n;
            if self.burst.is_full() {
                self.send(result);
            }
        }
    }

    /// Sends the burst. Packets that the device does not accept are freed.
    fn send(&mut self, result: &mut TxResult) {
        let (n_pushed, mut bytes) = (self.burst.len(), std::mem::take(&mut self.bytes));
        let (port, queue) = (self.running.claim.port, self.queue);
        let tx_lock = self.running.txq(queue).lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::take(&mut self.has_requests) {
            // SAFETY: as for `send` below. The driver writes only to headers of packets that the burst owns.
            bytes -=
                unsafe { self.burst.free_rejected(|mbufs, n| sys::sluice_tx_prepare(port, queue, mbufs, n)) };
        }
        // SAFETY: the device runs as long as `running` is held, and the lock prevents other senders from using the queue.
        let (sent, unsent_bytes) = unsafe {
            self.burst.send(&mut self.refused, |mbufs, n| sys::sluice_tx_burst(port, queue, mbufs, n))
        };
        drop(tx_lock);
        result.sent += sent as u32;
        result.sent_bytes += bytes - unsent_bytes;
        result.dropped += (n_pushed - sent) as u32;
    }

    /// The frame's offload request in DPDK's form; `None` if the device does not support it.
    fn request_to_device(&self, frame: &Frame) -> Option<OffloadRequest> {
        let in_use = self.running.tx_offloads;
        let offload = frame.offload();
        let mut request = OffloadRequest::of(frame.head_of(offload.needed_head_len()), &offload)
            .filter(|_| in_use.checksum)?;
        if let Some(kind) = request.segmentation {
            if !in_use.segmentation.contains(kind) {
                return None;
            }
            // Each segment gets its own length in its IPv4 header, so the header checksum must be computed. A device without IPv4 checksum
            // offload (virtio) leaves the segmentation to a receiver that also computes the header checksum.
            if in_use.ip_checksum && !kind.is_v6() {
                request.flags |= sys::SLUICE_RTE_MBUF_F_TX_IP_CKSUM;
            }
        }
        Some(request)
    }

    /// Performs the frame's offload request in software, and appends the resulting packets.
    #[cold]
    fn finish_in_software(&mut self, frame: &mut Frame, result: &mut TxResult) {
        let offload = frame.offload();
        frame.set_offload(Offload::default());
        let running = Arc::clone(&self.running);
        let emitted =
            offload.finish(frame.bytes_mut(), |bytes| match mbuf::copy_to_mbuf(bytes, &running.mempool) {
                _ if bytes.len() > running.max_len => result.too_long += 1,
                Some(mbuf) => self.push_and_send(mbuf, bytes.len(), result),
                None => result.dropped += 1,
            });
        if emitted.is_none() {
            result.dropped += 1;
        }
    }
}

/// Completes the checksum if the frame requests only that. Returns false if it requests more, or if the request does
/// not fit the frame.
fn complete_checksum(frame: &mut Frame) -> bool {
    let Offload { csum: Some(csum), gso: None } = frame.offload() else { return false };
    let done = segment::finish_checksum(frame.bytes_mut(), csum.start, csum.offset).is_some();
    if done {
        frame.set_offload(Offload::default());
    }
    done
}

impl EthTx {
    /// Handles a frame that has an offload request, needs a copy, or is too long. Returns the frame if it was not moved into the
    /// burst.
    #[cold]
    fn push_special(&mut self, mut frame: Frame, result: &mut TxResult) -> Option<Frame> {
        let len = frame.len();
        if frame.longest_segment() > self.running.max_len {
            result.too_long += 1;
            return Some(frame);
        }
        let mut request = OffloadRequest::default();
        if frame.has_offload_state() {
            match self.request_to_device(&frame) {
                Some(supported) => request = supported,
                None if complete_checksum(&mut frame) => {}
                None => {
                    self.finish_in_software(&mut frame, result);
                    return Some(frame);
                }
            }
        }
        let (mbuf, returned) = match mbuf::into_mbuf(frame) {
            Ok(mbuf) => (Some(mbuf), None),
            Err(frame) => (mbuf::copy_frame_to_mbuf(&frame, &self.running.mempool), Some(frame)),
        };
        match mbuf {
            Some(mbuf) => {
                self.has_requests |= mbuf::set_offload(mbuf, &request);
                self.push_and_send(mbuf, len, result);
            }
            None => result.dropped += 1,
        }
        returned
    }
}

impl TxQueue for EthTx {
    fn refused(&self) -> Option<&[u8]> {
        (!self.refused.is_empty()).then_some(&*self.refused)
    }

    /// Leaves in `frames` those that were not moved into the burst, because they were copied or refused.
    fn tx(&mut self, frames: &mut FrameBatch) -> TxResult {
        let mut result = TxResult::default();
        self.refused.clear();
        if !self.running.claim.is_up() {
            result.dropped = frames.len() as u32;
            self.running.claim.counters.count_tx_lost(&result);
            return result;
        }
        let copied = self.copy_and_send(frames, &mut result);
        if copied < frames.len() {
            let mut taken = std::mem::replace(frames, std::mem::take(&mut self.spare));
            let mut rest = taken.drain(..);
            frames.extend(rest.by_ref().take(copied));
            while let Some(special) = self.fill_and_send(&mut rest, &mut result) {
                frames.extend(self.push_special(special, &mut result));
            }
            drop(rest);
            self.spare = taken;
        }
        if self.burst.len() > 0 {
            self.send(&mut result);
        }
        if result.dropped + result.too_long > 0 {
            self.running.claim.counters.count_tx_lost(&result);
        }
        result
    }
}
