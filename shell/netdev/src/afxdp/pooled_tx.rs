//! The tx queue of a port in mode `spp`. A frame in a buffer of the same pool is passed to the kernel in this buffer, which
//! stays charged to the queue that received it. Other frames are copied into a buffer that is charged to the sender.

use super::queue::{HEADERS, Port, Taken, asked_of_kernel, kick, send_packets};
use crate::linux::umem_socket::Lease;
use crate::linux::xsk::{HAS_METADATA, RING, TX_METADATA, metadata};
use crate::linux::xsk_ring::{Consumer, Desc, Producer};
use packet::frame::{Frame, FrameBatch};
use packet::queue::{RX_BURST, TxQueue, TxResult};
use rustix::io::Errno;
use rxpool::Alpha;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

/// Sends through one socket.
pub struct PooledSender {
    lease: Arc<Lease>,
    tx: Producer<Desc>,
    completion: Consumer<u64>,
    alpha: Alpha,
    /// Packets whose buffers the kernel has not returned yet.
    out: u32,
    /// Packets that are not yet on the ring.
    ready: Vec<Desc>,
    /// An empty list, whose memory is used again.
    spare: FrameBatch,
    checksums: bool,
}

impl PooledSender {
    /// A sender of this socket.
    pub fn new(
        lease: Arc<Lease>,
        tx: Producer<Desc>,
        completion: Consumer<u64>,
        alpha: Alpha,
    ) -> PooledSender {
        let checksums = lease.umem.checksums.get().copied().unwrap_or(false);
        let (ready, spare) = (Vec::with_capacity(RX_BURST), FrameBatch::new());
        PooledSender { lease, tx, completion, alpha, out: 0, ready, spare, checksums }
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
            let freed = self.lease.umem.completed(&addresses[..n], self.lease.ends[1]);
            self.out = self.out.saturating_sub(freed as u32);
            if n < RX_BURST {
                return;
            }
        }
    }

    fn submit(&mut self) -> Result<(), Errno> {
        // The ring has an entry for each packet that is out.
        self.tx.put(&self.ready);
        self.ready.clear();
        kick(&self.lease.fd, &self.tx)
    }

    /// Makes space for one more packet.
    fn make_space(&mut self) -> bool {
        if self.out >= RING {
            let _ = self.submit();
            self.reclaim();
        }
        self.out < RING
    }

    fn post(&mut self, addr: u64, len: usize, options: u32) {
        self.ready.push(Desc { addr, len: len as u32, options });
        self.out += 1;
    }

    /// Copies a packet into a buffer of its own.
    fn copy(&mut self, bytes: &[u8], longest: usize, checksum: Option<(u16, u16)>) -> Taken {
        if bytes.len() > longest {
            return Taken::TooLong;
        }
        let Lease { umem, ends: [_, end], places: [_, place], .. } = *self.lease;
        if !self.make_space() || umem.pool.charge(place, 1, umem.pool.allowance(place, self.alpha)) == 0 {
            return Taken::NoChunk;
        }
        let mut address = [0];
        if umem.post(place, end, &mut address) == 0 {
            return Taken::NoChunk;
        }
        let [chunk] = address;
        let note = checksum.map(|checksum| metadata(bytes, checksum));
        let written = match note {
            Some(None) => None,
            Some(Some(note)) => umem.write(chunk, end, &note).map(|()| HAS_METADATA),
            None => Some(0),
        };
        let at = chunk + TX_METADATA as u64;
        match written.filter(|_| umem.write(at, end, bytes).is_some()) {
            Some(options) => self.post(at, bytes.len(), options),
            None => {
                umem.completed(&address, end);
                return Taken::NoChunk;
            }
        }
        Taken::Yes
    }

    /// The checksum request to send the frame in its own buffer with; `None`: it has to be copied.
    fn as_it_is(&self, frame: &Frame, longest: usize) -> Option<Option<(u16, u16)>> {
        if frame.source().is_none() || frame.len() > longest || frame.headroom() < TX_METADATA {
            return None;
        }
        asked_of_kernel(frame.offload(), self.checksums)
    }

    /// Passes the frame's buffer to the kernel. `Err` returns the frame if its buffer is of another pool.
    fn pass(&mut self, mut frame: Frame, checksum: Option<(u16, u16)>) -> Result<(), Frame> {
        let (len, offload) = (frame.len(), frame.offload());
        let mut options = 0;
        if let Some(note) = checksum.and_then(|checksum| metadata(frame.bytes(), checksum)) {
            let Some(front) = frame.push_front(TX_METADATA) else { return Err(frame) };
            front[..note.len()].copy_from_slice(&note);
            frame.grow_front(-(TX_METADATA as i16));
            options = HAS_METADATA;
        } else if checksum.is_some() {
            return Err(frame);
        }
        let (buffer, start) = frame.into_buffer();
        match self.lease.umem.send(buffer, start, self.lease.ends[1]) {
            Ok(addr) => {
                self.post(addr, len, options);
                Ok(())
            }
            Err(buffer) => {
                let mut frame = Frame::within(buffer, start, len);
                frame.set_offload(offload);
                Err(frame)
            }
        }
    }

    fn send(&mut self, frames: &mut FrameBatch, longest: usize) -> TxResult {
        let mut result = TxResult::default();
        self.reclaim();
        let count = |result: &mut TxResult, taken, len| match taken {
            Taken::Yes => {
                result.sent += 1;
                result.sent_bytes += len;
            }
            Taken::NoChunk => result.dropped += 1,
            Taken::TooLong => result.too_long += 1,
        };
        let mut given = std::mem::replace(frames, std::mem::take(&mut self.spare));
        for mut frame in given.drain(..) {
            let len = frame.len() as u64;
            let own = if self.make_space() { self.as_it_is(&frame, longest) } else { None };
            if let Some(checksum) = own {
                match self.pass(frame, checksum) {
                    Ok(()) => {
                        count(&mut result, Taken::Yes, len);
                        continue;
                    }
                    Err(back) => frame = back,
                }
            }
            let checksums = self.checksums;
            let taken =
                send_packets(&mut frame, checksums, |packet, checksum| self.copy(packet, longest, checksum));
            count(&mut result, taken, len);
            frames.push(frame);
        }
        self.spare = given;
        if self.submit().is_err() {
            // The device is down or gone; packets on the ring are not sent before it is up again.
            result.dropped += std::mem::take(&mut result.sent);
            result.sent_bytes = 0;
        }
        result
    }
}

/// A worker's access to a sender that may be shared.
pub struct PooledTx {
    /// State shared with the port.
    pub port: Arc<Port>,
    /// The sender.
    pub sender: Arc<Mutex<PooledSender>>,
    /// Bytes of a buffer that a packet may fill.
    pub capacity: usize,
}

impl TxQueue for PooledTx {
    fn tx(&mut self, frames: &mut FrameBatch) -> TxResult {
        let result = if self.port.counters.ended() {
            TxResult { dropped: frames.len() as u32, ..TxResult::default() }
        } else {
            let longest = (self.port.mtu.load(Ordering::Relaxed) as usize + HEADERS).min(self.capacity);
            self.sender.lock().unwrap_or_else(PoisonError::into_inner).send(frames, longest)
        };
        self.port.counters.count_tx(&result);
        result
    }
}
