//! The tx queue of a port in mode `spp`. A frame in a buffer of the same umem is passed to the kernel without a copy; its buffer
//! still counts for the queue that received it. Other frames are copied into a buffer that counts for the sender.

use super::queue::{HEADER_BYTES, PortShared, WriteResult, kernel_request, kick, send_packets};
use crate::linux::umem_socket::SocketUse;
use crate::linux::xsk::{HAS_METADATA, RING_ENTRIES, TX_METADATA, metadata};
use crate::linux::xsk_ring::{Consumer, Desc, Producer};
use packet::frame::{Frame, FrameBatch};
use packet::queue::{RX_BURST, TxQueue, TxResult};
use rustix::io::Errno;
use rxpool::Alpha;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

/// Sends through one socket. In cache lines of its own (see [`sync::CachePadded`]).
#[repr(align(128))]
pub struct PooledSender {
    socket_use: Arc<SocketUse>,
    tx: Producer<Desc>,
    completion: Consumer<u64>,
    alpha: Alpha,
    /// Number of packets whose buffers the kernel has not returned yet.
    in_flight: u32,
    /// Descriptors of packets that are not on the ring yet.
    ready: Vec<Desc>,
    /// An empty list whose memory is reused.
    spare: FrameBatch,
    /// Whether the kernel completes checksums.
    checksums: bool,
}

impl PooledSender {
    /// Creates the sender of this socket.
    pub fn new(
        socket_use: Arc<SocketUse>,
        tx: Producer<Desc>,
        completion: Consumer<u64>,
        alpha: Alpha,
    ) -> PooledSender {
        let checksums = socket_use.umem.checksums.get().copied().unwrap_or(false);
        let (ready, spare) = (Vec::with_capacity(RX_BURST), FrameBatch::new());
        PooledSender { socket_use, tx, completion, alpha, in_flight: 0, ready, spare, checksums }
    }

    /// Frees the buffers of packets that were sent.
    fn reclaim(&mut self) {
        let mut addresses = [0; RX_BURST];
        loop {
            let mut n = 0;
            self.completion.take(RX_BURST, |address| {
                addresses[n] = address;
                n += 1;
            });
            let freed = self.socket_use.umem.free_completed(&addresses[..n], self.socket_use.sides[1]);
            self.in_flight = self.in_flight.saturating_sub(freed as u32);
            if n < RX_BURST {
                return;
            }
        }
    }

    /// Puts the descriptors in `ready` on the ring and makes the kernel send.
    fn submit(&mut self) -> Result<(), Errno> {
        // The ring has an entry for each packet in flight, so all descriptors fit.
        self.tx.put(&self.ready);
        self.ready.clear();
        kick(&self.socket_use.fd, &self.tx)
    }

    /// Ensures that one more packet fits on the ring. Returns false if the ring is full.
    fn make_space(&mut self) -> bool {
        if self.in_flight >= RING_ENTRIES {
            let _ = self.submit();
            self.reclaim();
        }
        self.in_flight < RING_ENTRIES
    }

    /// Adds a packet to `ready`.
    fn post(&mut self, addr: u64, len: usize, options: u32) {
        self.ready.push(Desc { addr, len: len as u32, options });
        self.in_flight += 1;
    }

    /// Copies a packet into a new buffer.
    fn copy(&mut self, bytes: &[u8], max_len: usize, checksum: Option<(u16, u16)>) -> WriteResult {
        if bytes.len() > max_len {
            return WriteResult::TooLong;
        }
        let SocketUse { umem, sides: [_, side], slots: [_, slot], .. } = *self.socket_use;
        if !self.make_space() || umem.pool.acquire(slot, 1, umem.pool.allowance(slot, self.alpha)) == 0 {
            return WriteResult::NoBuffer;
        }
        let mut address = [0];
        if umem.post(slot, side, &mut address) == 0 {
            return WriteResult::NoBuffer;
        }
        let [chunk] = address;
        let metadata_bytes = checksum.map(|checksum| metadata(bytes, checksum));
        let written = match metadata_bytes {
            Some(None) => None,
            Some(Some(metadata_bytes)) => umem.write(chunk, side, &metadata_bytes).map(|()| HAS_METADATA),
            None => Some(0),
        };
        let at = chunk + TX_METADATA as u64;
        match written.filter(|_| umem.write(at, side, bytes).is_some()) {
            Some(options) => self.post(at, bytes.len(), options),
            None => {
                umem.free_completed(&address, side);
                return WriteResult::NoBuffer;
            }
        }
        WriteResult::Queued
    }

    /// The checksum request with which the frame can be sent in its own buffer; `None`: the frame has to be copied.
    fn own_buffer_request(&self, frame: &Frame, max_len: usize) -> Option<Option<(u16, u16)>> {
        if frame.source().is_none() || frame.len() > max_len || frame.headroom() < TX_METADATA {
            return None;
        }
        kernel_request(frame.offload(), self.checksums)
    }

    /// Passes the frame's buffer to the kernel. `Err` returns the frame if its buffer belongs to another umem or its checksum is invalid.
    fn send_own_buffer(&mut self, mut frame: Frame, checksum: Option<(u16, u16)>) -> Result<(), Frame> {
        let (len, offload) = (frame.len(), frame.offload());
        let mut options = 0;
        if let Some(metadata_bytes) = checksum.and_then(|checksum| metadata(frame.bytes(), checksum)) {
            let Some(front) = frame.push_front(TX_METADATA) else { return Err(frame) };
            front[..metadata_bytes.len()].copy_from_slice(&metadata_bytes);
            frame.grow_front(-(TX_METADATA as i16));
            options = HAS_METADATA;
        } else if checksum.is_some() {
            return Err(frame);
        }
        let (buffer, start) = frame.into_buffer();
        match self.socket_use.umem.post_frame_buffer(buffer, start, self.socket_use.sides[1]) {
            Ok(addr) => {
                self.post(addr, len, options);
                Ok(())
            }
            Err(buffer) => {
                let mut frame = Frame::in_buffer_truncated(buffer, start, len);
                frame.set_offload(offload);
                Err(frame)
            }
        }
    }

    /// Sends frames. A frame whose own buffer was passed to the kernel is removed from `frames`; the caller frees the others.
    fn send(&mut self, frames: &mut FrameBatch, max_len: usize) -> TxResult {
        let mut result = TxResult::default();
        self.reclaim();
        let count = |result: &mut TxResult, written, len| match written {
            WriteResult::Queued => {
                result.sent += 1;
                result.sent_bytes += len;
            }
            WriteResult::NoBuffer => result.dropped += 1,
            WriteResult::TooLong => result.too_long += 1,
        };
        let mut given = std::mem::replace(frames, std::mem::take(&mut self.spare));
        for mut frame in given.drain(..) {
            let len = frame.len() as u64;
            let own = if self.make_space() { self.own_buffer_request(&frame, max_len) } else { None };
            if let Some(checksum) = own {
                match self.send_own_buffer(frame, checksum) {
                    Ok(()) => {
                        count(&mut result, WriteResult::Queued, len);
                        continue;
                    }
                    Err(returned) => frame = returned,
                }
            }
            let checksums = self.checksums;
            let written =
                send_packets(&mut frame, checksums, |packet, checksum| self.copy(packet, max_len, checksum));
            count(&mut result, written, len);
            frames.push(frame);
        }
        self.spare = given;
        if self.submit().is_err() {
            // The device is down or gone. Packets on the ring are not sent before it is up again.
            result.dropped += std::mem::take(&mut result.sent);
            result.sent_bytes = 0;
        }
        result
    }
}

/// A worker's handle of a sender that several workers may share.
pub struct PooledTx {
    /// State shared with the port.
    pub port: Arc<PortShared>,
    /// The sender.
    pub sender: Arc<Mutex<PooledSender>>,
    /// Maximum number of bytes of a packet in a buffer.
    pub capacity: usize,
}

impl TxQueue for PooledTx {
    fn tx(&mut self, frames: &mut FrameBatch) -> TxResult {
        let result = if self.port.counters.ended() {
            TxResult { dropped: frames.len() as u32, ..TxResult::default() }
        } else {
            let max_len = (self.port.mtu.load(Ordering::Relaxed) as usize + HEADER_BYTES).min(self.capacity);
            self.sender.lock().unwrap_or_else(PoisonError::into_inner).send(frames, max_len)
        };
        self.port.counters.count_tx(&result);
        result
    }
}
