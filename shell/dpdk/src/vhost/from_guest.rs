//! Receives from a guest: converts the packets of its ring to frames.

use super::bounds::BURST;
use super::callbacks::take_interrupts;
use super::device_access::Accessor;
use super::kick::Kick;
use super::port_state::PortState;
use crate::mbuf;
use crate::mempool::Mempool;
use crate::offload_request::SEGMENT_SIZE_SHIFT;
use dpdk_sys as sys;
use packet::frame::{Frame, FrameBatch, FramePool};
use packet::offload::{Gso, Offload, PartialChecksum};
use packet::queue::RX_BURST;
use packet::segment;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use vhost::Received;

/// Offset of the flags in a TCP header.
const TCP_FLAGS: usize = 13;
/// The flag CWR, which a sender sets after it has reduced its congestion window (RFC 3168).
const CWR: u8 = 0x80;

/// One receive queue, owned by one worker.
#[derive(Debug)]
pub struct FromGuest {
    port: Arc<PortState>,
    accessor: Accessor,
    pair: usize,
    pool: Mempool,
    kick: Option<Kick>,
}

impl FromGuest {
    pub(super) fn new(port: &Arc<PortState>, pair: usize, pool: Mempool) -> FromGuest {
        FromGuest { accessor: port.access.accessor(), port: port.clone(), pair, pool, kick: Kick::new() }
    }

    /// Appends up to `max` packets to `out`.
    #[inline]
    pub fn receive(&mut self, max: usize, pool: &mut FramePool, out: &mut FrameBatch) -> Received {
        let Some(access) = self.port.access.enter(&mut self.accessor) else { return Received::default() };
        if !self.port.guest_sends(self.pair) {
            return Received::default();
        }
        let mut mbufs = [std::ptr::null_mut(); RX_BURST];
        let (ring, max) = (self.pair as u16 * 2 + 1, max.min(RX_BURST));
        let (mut n, mut interrupts) = (0, 0);
        while n < max {
            let room = &mut mbufs[n..max];
            // SAFETY: the vid is valid during the access; `room` has space for its length of pointers; the pool
            // is alive. The library checks the ring's number and takes its lock.
            let got = unsafe {
                let (to, len) = (room.as_mut_ptr(), room.len() as u16);
                sys::rte_vhost_dequeue_burst(access.vid(), ring, self.pool.raw(), to, len)
            };
            interrupts += take_interrupts();
            n = max.min(n + usize::from(got));
            if usize::from(got) < BURST {
                break;
            }
        }
        drop(access);
        let (before, mbufs) = (out.len(), &mbufs[..n]);
        // SAFETY: this function owns the packets and has not passed them on yet.
        let flags = |m: &*mut sys::rte_mbuf| unsafe { (**m).ol_flags };
        if mbufs.iter().all(|m| flags(m) & OFFLOAD == 0) {
            // SAFETY: this function owns the packets, and their pointers are not used afterwards.
            unsafe { mbuf::append(mbufs, pool, out) };
        } else {
            // SAFETY: this function owns the packets, and each pointer is used once.
            mbufs.iter().for_each(|m| unsafe { append_one(*m, flags(m), pool, out) });
        }
        Received { packets: n, refused: n - (out.len() - before), interrupts, needs_return: false }
    }

    /// The file descriptor that becomes readable when the guest sends while kicks are enabled; `None`: kicks are not
    /// available.
    pub fn kick_fd(&self) -> Option<Arc<OwnedFd>> {
        self.kick.as_ref().map(Kick::fd)
    }

    /// Enables or disables kicks. Returns false if the guest cannot kick. Without a guest no packet can arrive, so the result is
    /// true.
    pub fn arm(&mut self, on: bool) -> bool {
        let Some(kick) = &self.kick else { return false };
        if !on {
            kick.drain();
        }
        let Some(access) = self.port.access.enter(&mut self.accessor) else { return true };
        if !self.port.guest_sends(self.pair) {
            return true;
        }
        let ring = self.pair as u16 * 2 + 1;
        if on {
            return kick.enable(access.vid(), ring);
        }
        Kick::disable(access.vid(), ring);
        true
    }

    /// Number of packets that wait in the ring.
    pub fn waiting(&mut self) -> u32 {
        let Some(access) = self.port.access.enter(&mut self.accessor) else { return 0 };
        let ring = self.pair as u16 * 2 + 1;
        // SAFETY: the vid is valid during the access. The library checks the ring's number and takes its lock.
        unsafe { sys::rte_vhost_rx_queue_count(access.vid(), ring) }
    }
}

/// Bits of `ol_flags` that hold the state of the checksum. If all are set, the sender left the checksum to the receiver.
const CHECKSUM: u64 = sys::SLUICE_RTE_MBUF_F_RX_L4_CKSUM_NONE;
/// Bit of `ol_flags`: the packet requests segmentation.
const SEGMENTED: u64 = sys::SLUICE_RTE_MBUF_F_RX_LRO;
/// If none of these bits is set, the packet has no offload request.
const OFFLOAD: u64 = SEGMENTED | CHECKSUM;

/// Appends the frame of one packet, with its offload request if it has one.
///
/// # Safety
///
/// The caller owns the packet and does not use its pointer afterwards; nothing else uses its memory.
unsafe fn append_one(mbuf: *mut sys::rte_mbuf, flags: u64, pool: &mut FramePool, out: &mut FrameBatch) {
    // SAFETY: the caller owns the packet. The field is initialised; its value is used only if the flags request segmentation.
    let size = unsafe { (*mbuf).tx_offload } >> SEGMENT_SIZE_SHIFT;
    // SAFETY: the caller owns the packet, does not use it afterwards, and guarantees that its memory is not shared.
    let appended = unsafe { mbuf::append_unshared(mbuf, pool, out) };
    let has_offload_request = flags & SEGMENTED != 0 || flags & CHECKSUM == CHECKSUM;
    if has_offload_request
        && appended
        && out.last_mut().is_some_and(|frame| set_offload(frame, flags, size as u16).is_none())
    {
        out.pop().into_iter().for_each(|frame| pool.free(frame));
    }
}

/// Copies the offload request from the packet to the frame. `None`: the request does not fit the packet, or was not negotiated.
#[cold]
fn set_offload(frame: &mut Frame, flags: u64, size: u16) -> Option<()> {
    let bytes = frame.bytes();
    let layout = segment::layout(bytes)?;
    let start = u16::try_from(layout.l4).ok()?;
    let kind = layout.kind()?;
    let gso = match flags & SEGMENTED {
        0 => None,
        _ if !kind.is_tcp() => return None,
        _ => Some(Gso { kind, size, ecn: *bytes.get(layout.l4 + TCP_FLAGS)? & CWR != 0 }),
    };
    let offload = Offload { csum: Some(PartialChecksum { start, offset: layout.checksum_offset()? }), gso };
    offload.fits(bytes).then(|| frame.set_offload(offload))
}
