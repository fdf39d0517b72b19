//! Bursts: from a receive queue into frames, from frames into a transmit queue.
//!
//! The driver is called once per burst through the shim; what happens to each packet happens here.

use super::run::Running;
use crate::mbuf::{self, Burst, Mbuf};
use crate::undone::Undone;
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
        if !self.running.plug.is_up() {
            return RxResult::default();
        }
        let (port, queue) = (self.running.plug.port, self.queue);
        // SAFETY: the device runs as long as `running` is held, and this queue is polled only through `self`.
        let (n, lost) = unsafe {
            self.burst.receive(max, pool, out, |mbufs, n| sys::sluice_rx_burst(port, queue, mbufs, n))
        };
        if lost > 0 {
            self.running.plug.counters.count_rx_lost(lost as u64);
        }
        RxResult { dropped: lost as u32, more: n > 0 && n >= max.min(packet::queue::RX_BURST) }
    }
}

/// A transmit queue; several may be the same one of the device.
pub struct EthTx {
    running: Arc<Running>,
    queue: u16,
    burst: Burst,
    /// Bytes in `burst`.
    bytes: u64,
    /// The driver has to look at the burst first: something is left to do on a packet of it.
    undone: bool,
    given: FrameBatch,
    /// A packet of the last burst that the device did not take.
    refused: Vec<u8>,
}

impl EthTx {
    pub(super) fn new(running: Arc<Running>, queue: u16) -> EthTx {
        let (burst, given) = (Burst::new(), FrameBatch::new());
        EthTx { running, queue, burst, bytes: 0, undone: false, given, refused: Vec::new() }
    }

    /// Puts a packet into the burst, which is sent when it is full.
    fn put(&mut self, mbuf: Mbuf, len: usize, result: &mut TxResult) {
        self.bytes += len as u64;
        self.burst.push(mbuf);
        if self.burst.is_full() {
            self.send(result);
        }
    }

    /// Puts packets that are sent as they are into the burst, which is sent when it is full, up to one that is not.
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

    /// Sends the burst; what the device does not take is freed.
    fn send(&mut self, result: &mut TxResult) {
        let (given, mut bytes) = (self.burst.len(), std::mem::take(&mut self.bytes));
        let (port, queue) = (self.running.plug.port, self.queue);
        let alone = self.running.txq(queue).lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::take(&mut self.undone) {
            // SAFETY: as below; the driver writes headers of packets that are ours.
            bytes -= unsafe { self.burst.keep(|mbufs, n| sys::sluice_tx_prepare(port, queue, mbufs, n)) };
        }
        // SAFETY: the device runs as long as `running` is held, and the lock keeps others off the queue.
        let (sent, unsent_bytes) = unsafe {
            self.burst.send(&mut self.refused, |mbufs, n| sys::sluice_tx_burst(port, queue, mbufs, n))
        };
        drop(alone);
        result.sent += sent as u32;
        result.sent_bytes += bytes - unsent_bytes;
        result.dropped += (given - sent) as u32;
    }

    /// How to leave to the device what is left to do; `None`: it does no such work.
    fn leave(&self, frame: &Frame) -> Option<Undone> {
        let work = self.running.work;
        let mut undone = Undone::of(frame.bytes(), &frame.offload()).filter(|_| work.checksum)?;
        if undone.cut.is_some() {
            if !work.segmentation {
                return None;
            }
            // Each segment has a length of its own in its IP header. A device that does not sum that header here is one
            // behind which somebody else cuts.
            if work.ip_checksum && undone.cut == Some(GsoKind::Tcp4) {
                undone.flags |= sys::SLUICE_RTE_MBUF_F_TX_IP_CKSUM;
            }
        }
        Some(undone)
    }

    /// Does what the frame's sender left undone, and puts what comes of it.
    #[cold]
    fn finish(&mut self, frame: &mut Frame, result: &mut TxResult) {
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

/// Completes a checksum where that is all there is to do; `false`: there is more, or the note does not fit.
fn completed(frame: &mut Frame) -> bool {
    let Offload { csum: Some(csum), gso: None } = frame.offload() else { return false };
    let done = segment::complete(frame.bytes_mut(), csum.start, csum.offset).is_some();
    if done {
        frame.set_offload(Offload::default());
    }
    done
}

impl EthTx {
    /// Any frame: one that needs work or a copy, or is too long, among them. What is not kept of it is given back.
    #[cold]
    fn put_odd(&mut self, mut frame: Frame, result: &mut TxResult) -> Option<Frame> {
        let len = frame.len();
        if frame.offload().longest(frame.bytes()) > self.running.max_len {
            result.too_long += 1;
            return Some(frame);
        }
        let mut left = Undone::default();
        if frame.is_undone() {
            match self.leave(&frame) {
                Some(undone) => left = undone,
                None if completed(&mut frame) => {}
                None => {
                    self.finish(&mut frame, result);
                    return Some(frame);
                }
            }
        }
        let (mbuf, back) = match mbuf::in_place(frame) {
            Ok(mbuf) => (Some(mbuf), None),
            Err(frame) => (mbuf::copied(frame.bytes(), &self.running.mempool), Some(frame)),
        };
        match mbuf {
            Some(mbuf) => {
                self.undone |= mbuf::leave(mbuf, &left);
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
        if !self.running.plug.is_up() {
            result.dropped = frames.len() as u32;
            self.running.plug.counters.count_tx_lost(&result);
            return result;
        }
        let mut given = std::mem::replace(frames, std::mem::take(&mut self.given));
        let mut rest = given.drain(..);
        while let Some(odd) = self.put_all(&mut rest, &mut result) {
            frames.extend(self.put_odd(odd, &mut result));
        }
        drop(rest);
        self.given = given;
        if self.burst.len() > 0 {
            self.send(&mut result);
        }
        if result.dropped + result.too_long > 0 {
            self.running.plug.counters.count_tx_lost(&result);
        }
        result
    }
}
