//! What a guest sends: its ring's packets as frames.

use super::callbacks::take_interrupts;
use super::gate::Pass;
use super::kick::Kick;
use super::link::Link;
use crate::mbuf;
use crate::mempool::Mempool;
use crate::undone::SEGMENT_SIZE_SHIFT;
use dpdk_sys as sys;
use packet::frame::{Frame, FrameBatch, FramePool};
use packet::offload::{Gso, GsoKind, Offload, PartialChecksum};
use packet::queue::RX_BURST;
use packet::segment;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Where in TCP's header its flags are, and the one of a sender that has slowed down (RFC 3168).
const TCP_FLAGS: usize = 13;
const CWR: u8 = 0x80;

/// What a burst brought beside its frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Packets taken off the ring.
    pub packets: usize,
    /// Those that made no frame: the guest left work undone that it was told not to.
    pub refused: usize,
    /// Interrupts that told the guest of it.
    pub interrupts: u64,
}

/// One receive queue. A worker owns it.
#[derive(Debug)]
pub struct FromGuest {
    link: Arc<Link>,
    pass: Pass,
    pair: usize,
    pool: Mempool,
    kick: Option<Kick>,
}

impl FromGuest {
    pub(super) fn new(link: &Arc<Link>, pair: usize, pool: Mempool) -> FromGuest {
        FromGuest { pass: link.door.pass(), link: link.clone(), pair, pool, kick: Kick::new() }
    }

    /// Appends up to `max` packets to `out`.
    #[inline]
    pub fn receive(&mut self, max: usize, pool: &mut FramePool, out: &mut FrameBatch) -> Received {
        let Some(inside) = self.link.door.enter(&mut self.pass) else { return Received::default() };
        if !self.link.guest_sends(self.pair) {
            return Received::default();
        }
        let mut mbufs = [std::ptr::null_mut(); RX_BURST];
        let (ring, max) = (self.pair as u16 * 2 + 1, max.min(RX_BURST));
        let (mut n, mut interrupts) = (0, 0);
        while n < max {
            let room = &mut mbufs[n..max];
            // SAFETY: the number is valid while we are inside; there is room for so many pointers; the pool is alive.
            // The library checks the ring's number and takes its lock.
            let got = unsafe {
                let (to, len) = (room.as_mut_ptr(), room.len() as u16);
                sys::rte_vhost_dequeue_burst(inside.vid(), ring, self.pool.raw(), to, len)
            };
            interrupts += take_interrupts();
            n = max.min(n + usize::from(got));
            if usize::from(got) < super::BURST {
                break;
            }
        }
        drop(inside);
        let (before, mbufs) = (out.len(), &mbufs[..n]);
        // SAFETY: packets of ours, not yet given away.
        let flags = |m: &*mut sys::rte_mbuf| unsafe { (**m).ol_flags };
        if mbufs.iter().all(|m| flags(m) & UNDONE == 0) {
            // SAFETY: the packets are ours, and forgotten.
            unsafe { mbuf::append(mbufs, pool, out) };
        } else {
            // SAFETY: as above.
            mbufs.iter().for_each(|m| unsafe { one(*m, flags(m), pool, out) });
        }
        Received { packets: n, refused: n - (out.len() - before), interrupts }
    }

    /// What becomes readable when the guest sends, while it is asked to tell.
    pub fn kick_fd(&self) -> Option<Arc<OwnedFd>> {
        self.kick.as_ref().map(Kick::fd)
    }

    /// Asks the guest to tell when it sends, or no more. False: it cannot. Of a guest that is not there nothing comes.
    pub fn arm(&mut self, on: bool) -> bool {
        let Some(kick) = &self.kick else { return false };
        if !on {
            kick.forget();
        }
        let Some(inside) = self.link.door.enter(&mut self.pass) else { return true };
        if !self.link.guest_sends(self.pair) {
            return true;
        }
        let ring = self.pair as u16 * 2 + 1;
        if on {
            return kick.watch(inside.vid(), ring);
        }
        Kick::leave(inside.vid(), ring);
        true
    }

    /// How many packets wait in the ring.
    pub fn waiting(&mut self) -> u32 {
        let Some(inside) = self.link.door.enter(&mut self.pass) else { return 0 };
        let ring = self.pair as u16 * 2 + 1;
        // SAFETY: the number is valid while we are inside. The library checks the ring's number and takes its lock.
        unsafe { sys::rte_vhost_rx_queue_count(inside.vid(), ring) }
    }
}

/// The bits of a word that says how the checksum is; all of them: it is left to do.
const CHECKSUM: u64 = sys::SLUICE_RTE_MBUF_F_RX_L4_CKSUM_NONE;
const CUT: u64 = sys::SLUICE_RTE_MBUF_F_RX_LRO;
/// Without any of these nothing is left to do.
const UNDONE: u64 = CUT | CHECKSUM;

/// Appends the frame of one packet, which may have been left undone.
///
/// # Safety
///
/// It is the caller's, who forgets it, and its memory nobody else's.
unsafe fn one(mbuf: *mut sys::rte_mbuf, flags: u64, pool: &mut FramePool, out: &mut FrameBatch) {
    // SAFETY: the caller's promise; the word is initialised, and says something where the flags say so.
    let size = unsafe { (*mbuf).tx_offload } >> SEGMENT_SIZE_SHIFT;
    // SAFETY: as above.
    let refused = unsafe { mbuf::append_alone(mbuf, pool, out) };
    let undone = flags & CUT != 0 || flags & CHECKSUM == CHECKSUM;
    if undone && !refused && out.last_mut().is_some_and(|frame| note(frame, flags, size as u16).is_none()) {
        out.pop().into_iter().for_each(|frame| pool.free(frame));
    }
}

/// Carries over what is left to do. `None`: it does not fit the packet, or is not what was offered.
#[cold]
fn note(frame: &mut Frame, flags: u64, size: u16) -> Option<()> {
    let bytes = frame.bytes();
    let layout = segment::layout(bytes)?;
    let start = u16::try_from(layout.l4).ok()?;
    let kind = layout.kind()?;
    let gso = match kind {
        _ if flags & CUT == 0 => None,
        GsoKind::Udp => return None,
        GsoKind::Tcp4 | GsoKind::Tcp6 => {
            Some(Gso { kind, size, ecn: *bytes.get(layout.l4 + TCP_FLAGS)? & CWR != 0 })
        }
    };
    let offload = Offload { csum: Some(PartialChecksum { start, offset: layout.checksum()? }), gso };
    offload.fits(bytes).then(|| frame.set_offload(offload))
}
