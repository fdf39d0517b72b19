//! The queues of an AF_XDP port with its own rings. Each is owned by one worker.

use crate::kernel_port_state::PortCounters;
use crate::linux::xsk::{CHUNK, RxHalf, TX_METADATA, TxHalf};
use crate::linux::xsk_ring::{Desc, Producer};
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

/// State that the port and its queues share.
#[derive(Default)]
pub struct PortShared {
    /// Its counters.
    pub counters: PortCounters,
    /// The device's MTU in bytes when it was last read.
    pub mtu: AtomicU32,
}

/// Bytes of a frame that the MTU does not include: Ethernet header and one VLAN tag.
pub const HEADER_BYTES: usize = 18;

/// Receives from one socket. In cache lines of its own (see [`sync::CachePadded`]).
#[repr(align(128))]
pub struct AfxdpRx {
    /// State shared with the port.
    pub port: Arc<PortShared>,
    /// The socket.
    pub fd: Arc<OwnedFd>,
    /// The socket's receiving half.
    pub half: RxHalf,
    /// Whether the peer may leave checksums to the device.
    pub partial_checksums: bool,
}

impl RxQueue for AfxdpRx {
    /// Nothing to do: the socket is readable whenever packets wait.
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
            // A chunk outside of this half is not returned: the kernel would then receive packets into the sender's memory.
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
                        frame.set_offload(offload_request_of_bytes(&frame));
                    }
                    out.push(frame);
                }
                None => result.dropped += 1,
            }
        });
        // The ring has an entry for each chunk of this half, so all chunks fit.
        fill.put(&empty[..n_empty]);
        if received == 0 && fill.needs_wakeup() {
            let now = Timespec { tv_sec: 0, tv_nsec: 0 };
            // An error concerns the device; the main thread is notified of that by netlink.
            let _ = poll(&mut [PollFd::new(&*self.fd, PollFlags::IN)], Some(&now));
        }
        self.port.counters.count_rx_dropped(u64::from(result.dropped));
        result.more = received == max;
        result
    }
}

/// The offload request that the frame's sender made but AF_XDP could not transport.
pub fn offload_request_of_bytes(frame: &Frame) -> Offload {
    let csum = segment::find_partial_checksum(frame.bytes());
    Offload { csum: csum.map(|(start, offset)| PartialChecksum { start, offset }), gso: None }
}

/// Sends through one socket. In cache lines of its own (see [`sync::CachePadded`]).
#[repr(align(128))]
pub struct Sender {
    fd: Arc<OwnedFd>,
    half: TxHalf,
    /// Addresses of free chunks.
    free: Vec<u64>,
    /// Descriptors of packets that were written to chunks but are not on the ring yet.
    ready: Vec<Desc>,
}

/// The result of writing a packet to a chunk or buffer.
pub enum WriteResult {
    /// The packet will be sent.
    Queued,
    /// There is no free chunk or buffer for the packet.
    NoBuffer,
    /// The packet is longer than the MTU allows.
    TooLong,
}

/// The part of an offload request that is left to the kernel: nothing, or a checksum to complete (start, offset). `None`: the switch
/// has to perform the request. `checksums`: the kernel can complete checksums.
pub fn kernel_request(offload: Offload, checksums: bool) -> Option<Option<(u16, u16)>> {
    match offload {
        offload if !offload.is_some() => Some(None),
        Offload { csum: Some(csum), gso: None } if checksums => Some(Some((csum.start, csum.offset))),
        _ => None,
    }
}

/// Calls `write` for a frame, or for each segment into which the frame has to be split. The arguments are the bytes of the packet and
/// the checksum that the kernel must complete.
pub fn send_packets(
    frame: &mut Frame,
    checksums: bool,
    mut write: impl FnMut(&[u8], Option<(u16, u16)>) -> WriteResult,
) -> WriteResult {
    let offload = frame.offload();
    if let Some(checksum) = kernel_request(offload, checksums) {
        return write(frame.bytes(), checksum);
    }
    let mut written = WriteResult::Queued;
    let finished = offload.finish(frame.bytes_mut(), |packet| {
        let this = write(packet, None);
        if !matches!(this, WriteResult::Queued) {
            written = this;
        }
    });
    if finished.is_some() { written } else { WriteResult::NoBuffer }
}

/// Makes the kernel send, if that needs a system call. In copy mode, one call sends only a few packets, so the call is repeated.
pub fn kick(fd: &OwnedFd, tx: &Producer<Desc>) -> Result<(), Errno> {
    let mut waiting = tx.waiting();
    while waiting > 0 && tx.needs_wakeup() {
        match send(fd, &[], SendFlags::DONTWAIT) {
            Ok(_) | Err(Errno::AGAIN | Errno::BUSY | Errno::NOBUFS | Errno::INTR) => {}
            Err(e) => return Err(e),
        }
        let left = tx.waiting();
        if left >= waiting {
            // The device or the receiver is busy. The next call of this function tries again.
            break;
        }
        waiting = left;
    }
    Ok(())
}

impl Sender {
    /// Creates a sender whose chunks are all free.
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
        // The ring has as many entries as there are chunks, so all descriptors fit.
        self.half.tx.put(&self.ready);
        self.ready.clear();
        kick(&self.fd, &self.half.tx)
    }

    fn write(&mut self, bytes: &[u8], max_len: usize, checksum: Option<(u16, u16)>) -> WriteResult {
        if bytes.len() > max_len {
            return WriteResult::TooLong;
        }
        if self.free.is_empty() {
            let _ = self.submit();
            self.reclaim();
        }
        let Some(chunk) = self.free.pop() else { return WriteResult::NoBuffer };
        let written = self.half.write(chunk, bytes, checksum);
        if written.is_none() {
            self.free.push(chunk);
        }
        self.ready.extend(written);
        if written.is_some() { WriteResult::Queued } else { WriteResult::NoBuffer }
    }

    fn send(&mut self, frames: &mut FrameBatch, max_len: usize) -> TxResult {
        let mut result = TxResult::default();
        self.reclaim();
        for frame in frames.iter_mut() {
            let len = frame.len() as u64;
            let checksums = self.half.checksums;
            match send_packets(frame, checksums, |packet, checksum| self.write(packet, max_len, checksum)) {
                WriteResult::Queued => {
                    result.sent += 1;
                    result.sent_bytes += len;
                }
                WriteResult::NoBuffer => result.dropped += 1,
                WriteResult::TooLong => result.too_long += 1,
            }
        }
        if self.submit().is_err() {
            // The device is down or gone. Packets on the ring are not sent before it is up again.
            result.dropped += std::mem::take(&mut result.sent);
            result.sent_bytes = 0;
        }
        result
    }
}

/// A worker's handle of a sender that several workers may share.
pub struct AfxdpTx {
    /// State shared with the port.
    pub port: Arc<PortShared>,
    /// `None`: the port could not be started.
    pub sender: Option<Arc<Mutex<Sender>>>,
}

impl TxQueue for AfxdpTx {
    fn tx(&mut self, frames: &mut FrameBatch) -> TxResult {
        let sender = self.sender.as_ref().filter(|_| !self.port.counters.ended());
        let result = match sender {
            None => TxResult { dropped: frames.len() as u32, ..TxResult::default() },
            Some(sender) => {
                let max_len =
                    (self.port.mtu.load(Ordering::Relaxed) as usize + HEADER_BYTES).min(CHUNK - TX_METADATA);
                sender.lock().unwrap_or_else(PoisonError::into_inner).send(frames, max_len)
            }
        };
        self.port.counters.count_tx(&result);
        result
    }
}
