//! What a guest sends: its ring's packets as frames.

use super::gate::Pass;
use super::link::Link;
use crate::mbuf;
use crate::mempool::Mempool;
use dpdk_sys as sys;
use packet::frame::{Frame, FrameBatch, FramePool};
use packet::offload::{Offload, PartialChecksum};
use packet::queue::RX_BURST;
use packet::segment;
use std::sync::Arc;

const IPPROTO_TCP: u8 = 6;
const IPPROTO_UDP: u8 = 17;
const TCP_CHECKSUM: u16 = 16;
const UDP_CHECKSUM: u16 = 6;

/// What a burst brought beside its frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Packets taken off the ring.
    pub packets: usize,
    /// Those that made no frame: the guest left work undone that it was told not to.
    pub refused: usize,
}

/// One receive queue. A worker owns it.
#[derive(Debug)]
pub struct FromGuest {
    link: Arc<Link>,
    pass: Pass,
    pair: usize,
    pool: Mempool,
}

impl FromGuest {
    pub(super) fn new(link: &Arc<Link>, pair: usize, pool: Mempool) -> FromGuest {
        FromGuest { pass: link.door.pass(), link: link.clone(), pair, pool }
    }

    /// Appends up to `max` packets to `out`.
    #[inline]
    pub fn receive(&mut self, max: usize, pool: &mut FramePool, out: &mut FrameBatch) -> Received {
        let Some(inside) = self.link.door.enter(&mut self.pass) else { return Received::default() };
        if !self.link.guest_sends(self.pair) {
            return Received::default();
        }
        let mut mbufs = [std::ptr::null_mut(); RX_BURST];
        let (ring, max) = (self.pair as u16 * 2 + 1, max.min(RX_BURST) as u16);
        // SAFETY: the number is valid while we are inside; there is room for `max` pointers; the pool is alive. The
        // library checks the ring's number and takes its lock.
        let n = unsafe {
            sys::rte_vhost_dequeue_burst(inside.vid(), ring, self.pool.raw(), mbufs.as_mut_ptr(), max)
        };
        drop(inside);
        let (before, mbufs) = (out.len(), &mbufs[..usize::from(n).min(RX_BURST)]);
        // SAFETY: packets of ours, not yet given away.
        let flags = |m: &*mut sys::rte_mbuf| unsafe { (**m).ol_flags };
        if mbufs.iter().all(|m| flags(m) & UNDONE == 0) {
            // SAFETY: the packets are ours, and forgotten.
            unsafe { mbuf::append(mbufs, pool, out) };
        } else {
            // SAFETY: as above.
            mbufs.iter().for_each(|m| unsafe { one(*m, flags(m), pool, out) });
        }
        let packets = usize::from(n);
        Received { packets, refused: packets - (out.len() - before) }
    }

    /// How many packets wait in the ring.
    pub fn waiting(&mut self) -> u32 {
        let Some(inside) = self.link.door.enter(&mut self.pass) else { return 0 };
        let ring = self.pair as u16 * 2 + 1;
        // SAFETY: the number is valid while we are inside. The library checks the ring's number and takes its lock.
        unsafe { sys::rte_vhost_rx_queue_count(inside.vid(), ring) }
    }
}

/// Flags that say something is left to do.
const UNDONE: u64 = sys::SLUICE_RTE_MBUF_F_RX_LRO | sys::SLUICE_RTE_MBUF_F_RX_L4_CKSUM_NONE;

/// Appends the frame of one packet, which may have been left undone.
///
/// # Safety
///
/// It is the caller's, who forgets it.
unsafe fn one(mbuf: *mut sys::rte_mbuf, flags: u64, pool: &mut FramePool, out: &mut FrameBatch) {
    // SAFETY: the caller's promise.
    let refused = unsafe { mbuf::append(&[mbuf], pool, out) };
    if refused == 0 && flags & UNDONE != 0 && out.last_mut().is_some_and(|frame| note(frame, flags).is_none())
    {
        out.pop().into_iter().for_each(|frame| pool.free(frame));
    }
}

/// Carries over that the checksum is left to do. `None`: it does not fit the packet, or is not what was offered.
#[cold]
fn note(frame: &mut Frame, flags: u64) -> Option<()> {
    if flags & sys::SLUICE_RTE_MBUF_F_RX_LRO != 0 {
        return None;
    }
    let layout = segment::layout(frame.bytes())?;
    let offset = match layout.protocol {
        IPPROTO_TCP => TCP_CHECKSUM,
        IPPROTO_UDP => UDP_CHECKSUM,
        _ => return None,
    };
    let start = u16::try_from(layout.l4).ok()?;
    if layout.l4 + usize::from(offset) + 2 > frame.len() {
        return None;
    }
    frame.set_offload(Offload { csum: Some(PartialChecksum { start, offset }), gso: None });
    Some(())
}
