//! Bursts: from a receive queue into frames, from frames into a transmit queue.
//!
//! The driver is called once per burst through the shim; what happens to each packet happens here.

use super::run::Running;
use crate::mbuf::{self, Burst, Mbuf};
use dpdk_sys as sys;
use packet::frame::{Frame, FrameBatch, FramePool};
use packet::offload::Offload;
use packet::queue::{RxQueue, RxResult, TxQueue, TxResult};
use packet::segment;
use std::sync::{Arc, PoisonError};

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
    given: FrameBatch,
}

impl EthTx {
    pub(super) fn new(running: Arc<Running>, queue: u16) -> EthTx {
        EthTx { running, queue, burst: Burst::new(), bytes: 0, given: FrameBatch::new() }
    }

    /// Puts a packet into the burst, which is sent when it is full.
    #[inline]
    fn put(&mut self, mbuf: Mbuf, len: usize, result: &mut TxResult) {
        self.bytes += len as u64;
        self.burst.push(mbuf);
        if self.burst.is_full() {
            self.send(result);
        }
    }

    /// Sends the burst; what the device does not take is freed.
    fn send(&mut self, result: &mut TxResult) {
        let (n, bytes) = (self.burst.len(), std::mem::take(&mut self.bytes));
        let (port, queue) = (self.running.plug.port, self.queue);
        let alone = self.running.txq(queue).lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the device runs as long as `running` is held, and the lock keeps others off the queue.
        let (sent, unsent_bytes) =
            unsafe { self.burst.send(|mbufs, n| sys::sluice_tx_burst(port, queue, mbufs, n)) };
        drop(alone);
        result.sent += sent as u32;
        result.sent_bytes += bytes - unsent_bytes;
        result.dropped += (n - sent) as u32;
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
    /// Any frames, one by one: those that need work, a copy, or are too long among them.
    fn each(&mut self, frames: &mut FrameBatch, result: &mut TxResult) {
        let mut given = std::mem::take(&mut self.given);
        std::mem::swap(&mut given, frames);
        for mut frame in given.drain(..) {
            let len = frame.len();
            if frame.is_undone() && !completed(&mut frame) {
                self.finish(&mut frame, result);
            } else if len > self.running.max_len {
                result.too_long += 1;
            } else {
                match mbuf::in_place(frame) {
                    Ok(mbuf) => {
                        self.put(mbuf, len, result);
                        continue;
                    }
                    Err(copied) => frame = copied,
                }
                match mbuf::copied(frame.bytes(), &self.running.mempool) {
                    Some(mbuf) => self.put(mbuf, len, result),
                    None => result.dropped += 1,
                }
            }
            frames.push(frame);
        }
        self.given = given;
    }
}

impl TxQueue for EthTx {
    fn tx(&mut self, frames: &mut FrameBatch) -> TxResult {
        let mut result = TxResult::default();
        if !self.running.plug.is_up() {
            result.dropped = frames.len() as u32;
            self.running.plug.counters.count_tx_lost(&result);
            return result;
        }
        let longest = self.running.max_len;
        let simple = |f: &Frame| mbuf::is_ours(f) && !f.is_undone() && f.len() <= longest;
        if frames.iter().all(simple) {
            for frame in frames.drain(..) {
                let len = frame.len();
                if let Ok(mbuf) = mbuf::in_place(frame) {
                    self.put(mbuf, len, &mut result);
                }
            }
        } else {
            self.each(frames, &mut result);
        }
        if self.burst.len() > 0 {
            self.send(&mut result);
        }
        if result.dropped + result.too_long > 0 {
            self.running.plug.counters.count_tx_lost(&result);
        }
        result
    }
}
