//! The queues of an AF_XDP port. Each is owned by one worker.

use crate::linux::xsk::{CHUNK, RxHalf, TX_METADATA, TxHalf};
use crate::linux::xsk_ring::{Desc, Producer};
use crate::shared::PortCounters;
use packet::frame::{Frame, FrameBatch, FramePool};
use packet::offload::{Offload, PartialChecksum};
use packet::queue::{RX_BURST, RxQueue, RxResult, TxQueue, TxResult};
use packet::segment;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use rustix::time::Timespec;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// State shared by the port and its queues.
#[derive(Default)]
pub struct Port {
    /// Its counters.
    pub counters: PortCounters,
    /// The device's MTU in bytes, as last read.
    pub mtu: AtomicU32,
}

/// Bytes that the MTU does not count: Ethernet header and one VLAN tag.
pub const HEADERS: usize = 18;

/// Receives from one socket.
pub struct AfxdpRx {
    /// State shared with the port.
    pub port: Arc<Port>,
    /// The socket.
    pub fd: Arc<OwnedFd>,
    /// Its receiving half.
    pub half: RxHalf,
    /// The peer may leave checksums to the device.
    pub partial_checksums: bool,
}

impl RxQueue for AfxdpRx {
    /// Nothing to do: the socket is readable whenever frames wait.
    fn arm(&mut self, _on: bool) -> bool {
        true
    }

    fn rx(&mut self, pool: &mut FramePool, out: &mut FrameBatch, max: usize) -> RxResult {
        let mut result = RxResult::default();
        if self.port.counters.ended() {
            return result;
        }
        let RxHalf { fill, rx, chunks } = &mut self.half;
        let (mut empty, mut n_empty) = ([0; RX_BURST], 0);
        let max = max.min(RX_BURST);
        let received = rx.take(max, |desc| {
            // A chunk outside of our half is not returned to the kernel: the kernel would receive into the sender's memory.
            if let Some(chunk) = chunks.chunk_of(desc.addr) {
                empty[n_empty] = chunk;
                n_empty += 1;
            }
            let frame = pool.alloc(desc.len as usize).and_then(|mut frame| {
                let copied = chunks.read(desc.addr, frame.bytes_mut());
                copied.map(|()| frame)
            });
            match frame {
                Some(mut frame) => {
                    if self.partial_checksums {
                        frame.set_offload(missing_request(&frame));
                    }
                    out.push(frame);
                }
                None => result.dropped += 1,
            }
        });
        // The ring has space for all chunks that are out.
        fill.put(&empty[..n_empty]);
        if received == 0 && fill.needs_wakeup() {
            let now = Timespec { tv_sec: 0, tv_nsec: 0 };
            // The error concerns the device; the main thread learns of it by netlink.
            let _ = poll(&mut [PollFd::new(&*self.fd, PollFlags::IN)], Some(&now));
        }
        self.port.counters.count_rx_dropped(u64::from(result.dropped));
        result.more = received == max;
        result
    }
}

/// The offload request that the frame's sender could not transmit with it.
pub fn missing_request(frame: &Frame) -> Offload {
    let csum = segment::find_partial(frame.bytes());
    Offload { csum: csum.map(|(start, offset)| PartialChecksum { start, offset }), gso: None }
}

/// Sends through one socket.
pub struct Sender {
    fd: Arc<OwnedFd>,
    half: TxHalf,
    free: Vec<u64>,
    /// Packets that are written to chunks but not yet on the ring.
    ready: Vec<Desc>,
}

/// The result of writing a packet to a chunk.
pub enum Taken {
    /// It will be sent.
    Yes,
    /// There is no chunk for it.
    NoChunk,
    /// It is longer than the MTU allows.
    TooLong,
}

/// The offload request that is passed on to the kernel: none, or a checksum to complete (start, offset). `None`: the switch
/// has to fulfil the frame's request itself. `checksums`: the kernel can complete checksums.
pub fn asked_of_kernel(offload: Offload, checksums: bool) -> Option<Option<(u16, u16)>> {
    match offload {
        offload if !offload.is_some() => Some(None),
        Offload { csum: Some(csum), gso: None } if checksums => Some(Some((csum.start, csum.offset))),
        _ => None,
    }
}

/// Calls `write` for a frame, or for each segment that the frame has to be split into: with the bytes of the packet, and
/// the checksum that the kernel completes.
pub fn send_packets(
    frame: &mut Frame,
    checksums: bool,
    mut write: impl FnMut(&[u8], Option<(u16, u16)>) -> Taken,
) -> Taken {
    let offload = frame.offload();
    if let Some(checksum) = asked_of_kernel(offload, checksums) {
        return write(frame.bytes(), checksum);
    }
    let mut taken = Taken::Yes;
    let finished = offload.finish(frame.bytes_mut(), |packet| {
        let this = write(packet, None);
        if !matches!(this, Taken::Yes) {
            taken = this;
        }
    });
    if finished.is_some() { taken } else { Taken::NoChunk }
}

/// Makes the kernel send, if it needs a system call for that. In copy mode, one call sends only a few packets.
pub fn kick(fd: &OwnedFd, tx: &Producer<Desc>) -> Result<(), Errno> {
    let mut waiting = tx.waiting();
    while waiting > 0 && tx.needs_wakeup() {
        match send(fd, &[], SendFlags::DONTWAIT) {
            Ok(_) | Err(Errno::AGAIN | Errno::BUSY | Errno::NOBUFS | Errno::INTR) => {}
            Err(e) => return Err(e),
        }
        let left = tx.waiting();
        if left >= waiting {
            // The device or the receiver is busy; the next call tries again.
            break;
        }
        waiting = left;
    }
    Ok(())
}

impl Sender {
    /// A sender with all chunks free.
    pub fn new(fd: Arc<OwnedFd>, half: TxHalf) -> Sender {
        let free = half.chunks.addresses().collect();
        Sender { fd, half, free, ready: Vec::with_capacity(RX_BURST) }
    }

    /// Reclaims the chunks of packets that were sent.
    fn reclaim(&mut self) {
        let TxHalf { completion, chunks, .. } = &mut self.half;
        completion.take(usize::MAX, |addr| self.free.extend(chunks.chunk_of(addr)));
    }

    /// Passes written packets to the kernel.
    fn submit(&mut self) -> Result<(), Errno> {
        // The ring has as many entries as there are chunks.
        self.half.tx.put(&self.ready);
        self.ready.clear();
        kick(&self.fd, &self.half.tx)
    }

    fn write(&mut self, bytes: &[u8], longest: usize, checksum: Option<(u16, u16)>) -> Taken {
        if bytes.len() > longest {
            return Taken::TooLong;
        }
        if self.free.is_empty() {
            let _ = self.submit();
            self.reclaim();
        }
        let Some(chunk) = self.free.pop() else { return Taken::NoChunk };
        let written = self.half.write(chunk, bytes, checksum);
        if written.is_none() {
            self.free.push(chunk);
        }
        self.ready.extend(written);
        if written.is_some() { Taken::Yes } else { Taken::NoChunk }
    }

    fn send(&mut self, frames: &mut FrameBatch, longest: usize) -> TxResult {
        let mut result = TxResult::default();
        self.reclaim();
        for frame in frames.iter_mut() {
            let len = frame.len() as u64;
            let checksums = self.half.checksums;
            match send_packets(frame, checksums, |packet, checksum| self.write(packet, longest, checksum)) {
                Taken::Yes => {
                    result.sent += 1;
                    result.sent_bytes += len;
                }
                Taken::NoChunk => result.dropped += 1,
                Taken::TooLong => result.too_long += 1,
            }
        }
        if self.submit().is_err() {
            // The device is down or gone; packets on the ring are not sent before it is up again.
            result.dropped += std::mem::take(&mut result.sent);
            result.sent_bytes = 0;
        }
        result
    }
}

/// A worker's access to a sender that may be shared.
pub struct AfxdpTx {
    /// State shared with the port.
    pub port: Arc<Port>,
    /// `None`: the port could not be started.
    pub sender: Option<Arc<Mutex<Sender>>>,
}

impl TxQueue for AfxdpTx {
    fn tx(&mut self, frames: &mut FrameBatch) -> TxResult {
        let sender = self.sender.as_ref().filter(|_| !self.port.counters.ended());
        let result = match sender {
            None => TxResult { dropped: frames.len() as u32, ..TxResult::default() },
            Some(sender) => {
                let longest =
                    (self.port.mtu.load(Ordering::Relaxed) as usize + HEADERS).min(CHUNK - TX_METADATA);
                sender.lock().unwrap_or_else(PoisonError::into_inner).send(frames, longest)
            }
        };
        self.port.counters.count_tx(&result);
        result
    }
}
