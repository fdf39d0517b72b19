//! Bursts: from a receive queue into frames, from frames into a transmit queue.
//!
//! The driver is called once per burst through the shim; the work per packet is done here.

use super::run::Running;
use crate::mbuf::{self, Burst, Mbuf};
use crate::offload_request::OffloadRequest;
use dpdk_sys as sys;
use packet::frame::{Frame, FrameBatch, FramePool};
use packet::offload::{GsoKind, Offload};
use packet::queue::{RxQueue, RxResult, TxQueue, TxResult};
use packet::segment;
use std::sync::{Arc, PoisonError};
use std::vec::Drain;

/// A receive queue.
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
        // SAFETY: the device runs as long as `running` is held, and this queue is polled only through `self`.
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

/// A transmit queue. Several of these may share one queue of the device.
pub struct EthTx {
    running: Arc<Running>,
    queue: u16,
    burst: Burst,
    /// Total length of the packets in `burst`.
    bytes: u64,
    /// The burst has a packet with an offload request, so the driver has to prepare the burst first.
    has_requests: bool,
    given: FrameBatch,
    /// The bytes of the last packet that the device did not accept.
    refused: Vec<u8>,
}

impl EthTx {
    pub(super) fn new(running: Arc<Running>, queue: u16) -> EthTx {
        let (burst, given) = (Burst::new(), FrameBatch::new());
        EthTx { running, queue, burst, bytes: 0, has_requests: false, given, refused: Vec::new() }
    }

    /// Appends a packet to the burst, which is sent when it is full.
    fn put(&mut self, mbuf: Mbuf, len: usize, result: &mut TxResult) {
        self.bytes += len as u64;
        self.burst.push(mbuf);
        if self.burst.is_full() {
            self.send(result);
        }
    }

    /// Appends packets that need no work to the burst, which is sent whenever it is full. Stops at, and returns, the
    /// first frame that needs work.
    #[inline]
    fn put_all(&mut self, frames: &mut Drain<'_, Frame>, result: &mut TxResult) -> Option<Frame> {
        loop {
            let (bytes, odd) = self.burst.fill(frames, self.running.max_len);
            self.bytes += bytes;
            if !self.burst.is_full() {
                return odd;
            }
            self.send(result);
        }
    }

    /// Appends copies of the first frames that lie in no packet of DPDK, as long as they need nothing else; sends the burst whenever it is
    /// full. Returns how many were copied. Frames of other ports (guests, `afxdp`, tunnels) come in batches.
    fn put_copies(&mut self, frames: &[Frame], result: &mut TxResult) -> usize {
        let longest = self.running.max_len;
        let is_copied = |f: &&Frame| !mbuf::is_ours(f) && !f.has_offload_state() && f.len() <= longest;
        let mut done = 0;
        loop {
            let n = frames[done..].iter().take(self.burst.room()).take_while(is_copied).count();
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

    /// Sends the burst; packets that the device does not accept are freed.
    fn send(&mut self, result: &mut TxResult) {
        let (given, mut bytes) = (self.burst.len(), std::mem::take(&mut self.bytes));
        let (port, queue) = (self.running.claim.port, self.queue);
        let alone = self.running.txq(queue).lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::take(&mut self.has_requests) {
            // SAFETY: as below; the driver writes to headers of packets that are ours.
            bytes -= unsafe { self.burst.keep(|mbufs, n| sys::sluice_tx_prepare(port, queue, mbufs, n)) };
        }
        // SAFETY: the device runs as long as `running` is held, and the lock keeps other senders off the queue.
        let (sent, unsent_bytes) = unsafe {
            self.burst.send(&mut self.refused, |mbufs, n| sys::sluice_tx_burst(port, queue, mbufs, n))
        };
        drop(alone);
        result.sent += sent as u32;
        result.sent_bytes += bytes - unsent_bytes;
        result.dropped += (given - sent) as u32;
    }

    /// The frame's offload request in DPDK's form; `None` if the device does not support it.
    fn request_to_device(&self, frame: &Frame) -> Option<OffloadRequest> {
        let work = self.running.work;
        let offload = frame.offload();
        let mut request =
            OffloadRequest::of(frame.head_of(offload.reach()), &offload).filter(|_| work.checksum)?;
        if request.segmentation.is_some() {
            if !work.segmentation {
                return None;
            }
            // Each segment gets its own length in its IP header. A device without IPv4 checksum offload (virtio)
            // leaves the segmentation to a receiver that also completes the header checksum.
            if work.ip_checksum && request.segmentation == Some(GsoKind::Tcp4) {
                request.flags |= sys::SLUICE_RTE_MBUF_F_TX_IP_CKSUM;
            }
        }
        Some(request)
    }

    /// Performs the frame's offload request in software and appends the resulting packets.
    #[cold]
    fn finish_in_software(&mut self, frame: &mut Frame, result: &mut TxResult) {
        let offload = frame.offload();
        frame.set_offload(Offload::default());
        let running = Arc::clone(&self.running);
        let emitted =
            offload.finish(frame.bytes_mut(), |bytes| match mbuf::copied(bytes, &running.mempool) {
                _ if bytes.len() > running.max_len => result.too_long += 1,
                Some(mbuf) => self.put(mbuf, bytes.len(), result),
                None => result.dropped += 1,
            });
        if emitted.is_none() {
            result.dropped += 1;
        }
    }
}

/// Completes the checksum if that is all the frame requests. Returns false if it requests more, or the request does
/// not fit the frame.
fn complete_checksum(frame: &mut Frame) -> bool {
    let Offload { csum: Some(csum), gso: None } = frame.offload() else { return false };
    let done = segment::complete(frame.bytes_mut(), csum.start, csum.offset).is_some();
    if done {
        frame.set_offload(Offload::default());
    }
    done
}

impl EthTx {
    /// Handles a frame that needs work or a copy, or is too long. Returns the frame if it was not moved into the
    /// burst.
    #[cold]
    fn put_odd(&mut self, mut frame: Frame, result: &mut TxResult) -> Option<Frame> {
        let len = frame.len();
        if frame.longest() > self.running.max_len {
            result.too_long += 1;
            return Some(frame);
        }
        let mut left = OffloadRequest::default();
        if frame.has_offload_state() {
            match self.request_to_device(&frame) {
                Some(request) => left = request,
                None if complete_checksum(&mut frame) => {}
                None => {
                    self.finish_in_software(&mut frame, result);
                    return Some(frame);
                }
            }
        }
        let (mbuf, back) = match mbuf::in_place(frame) {
            Ok(mbuf) => (Some(mbuf), None),
            Err(frame) => (mbuf::copied_frame(&frame, &self.running.mempool), Some(frame)),
        };
        match mbuf {
            Some(mbuf) => {
                self.has_requests |= mbuf::set_offload(mbuf, &left);
                self.put(mbuf, len, result);
            }
            None => result.dropped += 1,
        }
        back
    }
}

impl TxQueue for EthTx {
    fn refused(&self) -> Option<&[u8]> {
        (!self.refused.is_empty()).then_some(&*self.refused)
    }

    fn tx(&mut self, frames: &mut FrameBatch) -> TxResult {
        let mut result = TxResult::default();
        self.refused.clear();
        if !self.running.claim.is_up() {
            result.dropped = frames.len() as u32;
            self.running.claim.counters.count_tx_lost(&result);
            return result;
        }
        let copied = self.put_copies(frames, &mut result);
        if copied < frames.len() {
            let mut given = std::mem::replace(frames, std::mem::take(&mut self.given));
            let mut rest = given.drain(..);
            frames.extend(rest.by_ref().take(copied));
            while let Some(odd) = self.put_all(&mut rest, &mut result) {
                frames.extend(self.put_odd(odd, &mut result));
            }
            drop(rest);
            self.given = given;
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
