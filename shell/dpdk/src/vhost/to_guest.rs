//! What a guest is sent.
//!
//! The library copies a packet into the guest's memory while it is called, and keeps nothing. So a frame needs no packet
//! buffer of DPDK's to be sent, wherever it lies: the library is shown a descriptor of our own that points at the
//! frame's bytes. The descriptors of a sender are used over and over and stay in its core's cache; those of the packets
//! received are not touched, and frames of kernel ports are copied once, not twice.

use super::callbacks::take_interrupts;
use super::feature;
use super::gate::{Inside, Pass};
use super::link::Link;
use crate::undone::Undone;
use dpdk_sys as sys;
use packet::offload::{GsoKind, Offload};
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What is offered beyond what the library takes at a time would look as if the ring were full.
const BURST: usize = super::BURST;

/// Descriptors that point at frames, and the list of them that the library wants.
struct Descriptors {
    mbufs: [sys::rte_mbuf; BURST],
    /// What follows the first part of a packet that is described in two.
    tails: [sys::rte_mbuf; BURST],
    list: [*mut sys::rte_mbuf; BURST],
}

// SAFETY: the pointers are written and used while a `Sending` borrows what they lead to, and by nobody afterwards.
unsafe impl Send for Descriptors {}

impl Descriptors {
    fn new() -> Box<Descriptors> {
        // SAFETY: all zeros are valid for these structures: numbers and pointers, none of them a reference.
        let mut new: Box<Descriptors> = unsafe { Box::new(std::mem::zeroed()) };
        for mbuf in &mut new.mbufs {
            mbuf.refcnt = 1;
        }
        for tail in &mut new.tails {
            (tail.nb_segs, tail.refcnt) = (1, 1);
        }
        new
    }
}

/// One sender. Several may fill the same ring; the library has a lock for each.
pub struct ToGuest {
    link: Arc<Link>,
    pass: Pass,
    slot: usize,
    descriptors: Box<Descriptors>,
}

impl ToGuest {
    pub(super) fn new(link: &Arc<Link>, slot: usize) -> ToGuest {
        ToGuest { pass: link.door.pass(), link: link.clone(), slot, descriptors: Descriptors::new() }
    }

    /// The guest takes TCP frames that are to be cut, of both versions of IP.
    pub fn takes_large(&self) -> bool {
        let wants = feature::GUEST_CSUM | feature::GUEST_TSO4 | feature::GUEST_TSO6;
        self.link.features.load(Ordering::Relaxed) & wants == wants
    }

    /// Begins to send to a ring that is on; `None`: there is none. A burst that was accepted in part is offered again
    /// up to `retries` times.
    #[inline]
    pub fn begin<'q, 'f>(&'q mut self, retries: u32) -> Option<Sending<'q, 'f>> {
        let ring = self.link.ring_of(self.slot)? * 2;
        let inside = self.link.door.enter(&mut self.pass)?;
        let features = self.link.features.load(Ordering::Relaxed);
        Some(Sending {
            inside,
            ring,
            features,
            descriptors: &mut self.descriptors,
            len: 0,
            retries_left: retries,
            retries: 0,
            stuck: false,
            frames: PhantomData,
        })
    }
}

/// Frames on their way to one ring; the guest cannot go away meanwhile. It borrows the frames until it is dropped.
pub struct Sending<'q, 'f> {
    inside: Inside<'q>,
    ring: u16,
    features: u64,
    descriptors: &'q mut Descriptors,
    len: usize,
    retries_left: u32,
    retries: u32,
    stuck: bool,
    frames: PhantomData<&'f mut [u8]>,
}

impl<'f> Sending<'_, 'f> {
    /// The next `push` needs a `flush` first.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.len == BURST
    }

    /// The queue pair whose ring is filled.
    #[inline]
    pub fn pair(&self) -> usize {
        usize::from(self.ring / 2)
    }

    /// Whether the guest does what is left to do on such a packet.
    pub fn takes(&self, bytes: &[u8], offload: &Offload) -> bool {
        self.undone(bytes, offload).is_some()
    }

    /// Appends a packet; `false`: no room, or too long for any ring.
    #[inline]
    pub fn push(&mut self, bytes: &'f [u8]) -> bool {
        self.put(bytes.as_ptr().cast_mut(), bytes.len(), &Undone::default())
    }

    /// Appends a packet of which the guest is to do the rest. `false`: no room, or the guest cannot.
    pub fn push_undone(&mut self, bytes: &'f mut [u8], offload: &Offload) -> bool {
        let Some(undone) = self.undone(bytes, offload) else { return false };
        // The library writes the sum of the pseudo header, which is there already, once more: hence `mut`.
        self.put(bytes.as_mut_ptr(), bytes.len(), &undone)
    }

    /// How DPDK says what the guest is to do; `None`: it cannot.
    fn undone(&self, bytes: &[u8], offload: &Offload) -> Option<Undone> {
        let undone = Undone::of(bytes, offload)?;
        let wants = feature::GUEST_CSUM
            | match undone.cut {
                None => 0,
                Some(GsoKind::Tcp4) => feature::GUEST_TSO4,
                Some(GsoKind::Tcp6) => feature::GUEST_TSO6,
                Some(GsoKind::Udp) => return None,
            };
        (self.features & wants == wants).then_some(undone)
    }

    #[inline]
    fn put(&mut self, data: *mut u8, len: usize, undone: &Undone) -> bool {
        // Of a packet to be cut the library would write the sum of a pseudo header without the length, as NICs want it;
        // guests want it with the length, as it is here. It leaves headers alone that are not in one piece.
        let first = if undone.cut.is_some() { undone.l4 } else { len };
        let (Ok(first), Ok(rest)) = (u16::try_from(first), u16::try_from(len - first)) else { return false };
        let Some(mbuf) = self.descriptors.mbufs.get_mut(self.len) else { return false };
        mbuf.buf_addr = data.cast();
        mbuf.data_len = first;
        mbuf.buf_len = first;
        mbuf.pkt_len = len as u32;
        mbuf.ol_flags = undone.flags;
        mbuf.tx_offload = undone.lengths;
        (mbuf.nb_segs, mbuf.next) = (1, std::ptr::null_mut());
        if rest > 0 {
            let tail = &mut self.descriptors.tails[self.len];
            tail.buf_addr = data.wrapping_add(usize::from(first)).cast();
            tail.data_len = rest;
            tail.buf_len = rest;
            (mbuf.nb_segs, mbuf.next) = (2, tail);
        }
        self.descriptors.list[self.len] = mbuf;
        self.len += 1;
        true
    }

    /// Sends at once a packet that lives only now; what was pushed before goes first, as by `flush`. Gives how many were
    /// not sent.
    pub fn send_now(&mut self, bytes: &[u8], mut sent: impl FnMut(&[u8])) -> usize {
        let before = self.flush(&mut sent);
        if !self.put(bytes.as_ptr().cast_mut(), bytes.len(), &Undone::default()) {
            return before + 1;
        }
        before + self.flush(&mut sent)
    }

    /// Sends what was pushed and tells `sent` of each packet that the ring took. Gives the number of the others. Once
    /// the ring is full, it stays so for this `Sending`.
    #[inline]
    pub fn flush(&mut self, mut sent: impl FnMut(&[u8])) -> usize {
        let n = std::mem::take(&mut self.len);
        let mut at = 0;
        while at < n && !self.stuck {
            let list = &mut self.descriptors.list[at..n];
            // SAFETY: the number is valid while we are inside. Each pointer leads to a descriptor whose packet is
            // borrowed by `self` ('f), or by the caller of `send_now`, which is this call's. The library reads those
            // and, where a checksum is left undone, writes a packet that is borrowed as `mut`; it keeps no pointer,
            // frees nothing, checks the ring's number and takes its lock.
            let k = unsafe {
                sys::rte_vhost_enqueue_burst(
                    self.inside.vid(),
                    self.ring,
                    list.as_mut_ptr(),
                    list.len() as u16,
                )
            };
            let k = usize::from(k).min(n - at);
            for mbuf in &self.descriptors.mbufs[at..at + k] {
                // SAFETY: as above: the packet is borrowed, in one piece and that long.
                sent(unsafe { std::slice::from_raw_parts(mbuf.buf_addr.cast(), mbuf.pkt_len as usize) });
            }
            at += k;
            if at < n {
                match (k, self.retries_left) {
                    (0, _) | (_, 0) => self.stuck = true,
                    _ => {
                        self.retries_left -= 1;
                        self.retries += 1;
                    }
                }
            }
        }
        n - at
    }

    /// Interrupts that told the guest of packets since this was last asked.
    #[inline]
    pub fn interrupts(&mut self) -> u64 {
        take_interrupts()
    }

    /// How often a burst was offered again.
    #[inline]
    pub fn retries(&self) -> u32 {
        self.retries
    }
}
