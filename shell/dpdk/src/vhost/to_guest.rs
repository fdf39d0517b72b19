//! Sending to a guest.
//!
//! The library copies a packet into the guest's memory during the call and keeps no reference. So a frame can be sent
//! from any memory, without a DPDK packet buffer: the library gets an mbuf of the sender that points at the frame's
//! bytes. The mbufs of a sender are reused and stay in its core's cache. Those of received packets are not touched,
//! and frames of kernel ports are copied once, not twice.

use super::bounds::BURST;
use super::callbacks::take_interrupts;
use super::device_access::{Accessor, Inside};
use super::port_state::PortState;
use crate::offload_request::OffloadRequest;
use dpdk_sys as sys;
use packet::offload::{GsoKind, Offload};
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use vhost::feature;

/// The sender's mbufs, which point at frames, and the array of pointers that the library takes.
struct Descriptors {
    mbufs: [sys::rte_mbuf; BURST],
    /// The second segments of packets that need two.
    tails: [sys::rte_mbuf; BURST],
    list: [*mut sys::rte_mbuf; BURST],
}

// SAFETY: the pointers are only used while a `Sending` borrows the frames that they point at.
unsafe impl Send for Descriptors {}

impl Descriptors {
    fn new() -> Box<Descriptors> {
        // SAFETY: all zeros are valid for these structures: numbers and pointers, no references.
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

/// One sender. Several senders may fill the same ring; the library has a lock for each ring.
pub struct ToGuest {
    port: Arc<PortState>,
    accessor: Accessor,
    slot: usize,
    descriptors: Box<Descriptors>,
}

impl ToGuest {
    pub(super) fn new(port: &Arc<PortState>, slot: usize) -> ToGuest {
        ToGuest {
            accessor: port.access.accessor(),
            port: port.clone(),
            slot,
            descriptors: Descriptors::new(),
        }
    }

    /// Whether the guest accepts TCP frames that need segmentation, over IPv4 and IPv6.
    pub fn takes_large(&self) -> bool {
        let wants = feature::GUEST_CSUM | feature::GUEST_TSO4 | feature::GUEST_TSO6;
        self.port.features.load(Ordering::Relaxed) & wants == wants
    }

    /// Begins a transmission to an enabled ring; `None` if no ring is enabled. If the ring takes only part of a burst,
    /// the rest is offered again, up to `retries` times.
    #[inline]
    pub fn begin<'q, 'f>(&'q mut self, retries: u32) -> Option<Sending<'q, 'f>> {
        let ring = self.port.ring_of(self.slot)? * 2;
        let inside = self.port.access.enter(&mut self.accessor)?;
        let features = self.port.features.load(Ordering::Relaxed);
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

/// A transmission to one ring. Until it is dropped, it borrows the frames, and the guest cannot be removed.
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
    /// Whether `flush` must be called before the next `push`.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.len == BURST
    }

    /// The queue pair whose ring is filled.
    #[inline]
    pub fn pair(&self) -> usize {
        usize::from(self.ring / 2)
    }

    /// Whether the guest accepts this packet with its offload request.
    pub fn takes(&self, bytes: &[u8], offload: &Offload) -> bool {
        self.request(bytes, offload).is_some()
    }

    /// Appends a packet. Returns false if there is no room, or the packet is too long for any ring.
    #[inline]
    pub fn push(&mut self, bytes: &'f [u8]) -> bool {
        self.put(bytes.as_ptr().cast_mut(), bytes.len(), &OffloadRequest::default())
    }

    /// Appends a packet with an offload request. Returns false if there is no room, or the guest does not support the
    /// request.
    pub fn push_with_offload(&mut self, bytes: &'f mut [u8], offload: &Offload) -> bool {
        let Some(request) = self.request(bytes, offload) else { return false };
        // The library writes the checksum of the pseudo header again, hence `mut`.
        self.put(bytes.as_mut_ptr(), bytes.len(), &request)
    }

    /// The request in DPDK's form; `None` if the guest does not support it.
    fn request(&self, bytes: &[u8], offload: &Offload) -> Option<OffloadRequest> {
        let request = OffloadRequest::of(bytes, offload)?;
        let wants = feature::GUEST_CSUM
            | match request.segmentation {
                None => 0,
                Some(GsoKind::Tcp4) => feature::GUEST_TSO4,
                Some(GsoKind::Tcp6) => feature::GUEST_TSO6,
                Some(GsoKind::Udp) => return None,
            };
        (self.features & wants == wants).then_some(request)
    }

    #[inline]
    fn put(&mut self, data: *mut u8, len: usize, request: &OffloadRequest) -> bool {
        // For a packet to be segmented, the library would write a pseudo-header checksum without the length, as NICs
        // want it; guests want it with the length, as it is here. The library leaves headers alone that are not in one
        // segment, so the packet is split after its headers.
        let first = if request.segmentation.is_some() { request.l4 } else { len };
        let (Ok(first), Ok(rest)) = (u16::try_from(first), u16::try_from(len - first)) else { return false };
        let Some(mbuf) = self.descriptors.mbufs.get_mut(self.len) else { return false };
        mbuf.buf_addr = data.cast();
        mbuf.data_len = first;
        mbuf.buf_len = first;
        mbuf.pkt_len = len as u32;
        mbuf.ol_flags = request.flags;
        mbuf.tx_offload = request.lengths;
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

    /// Sends a packet at once, after those that were pushed before. Returns how many packets were not sent.
    pub fn send_now(&mut self, bytes: &[u8], mut sent: impl FnMut(&[u8])) -> usize {
        let before = self.flush(&mut sent);
        if !self.put(bytes.as_ptr().cast_mut(), bytes.len(), &OffloadRequest::default()) {
            return before + 1;
        }
        before + self.flush(&mut sent)
    }

    /// Sends the pushed packets and calls `sent` for each packet that the ring took. Returns the number of the others.
    /// Once the ring is full, this `Sending` sends nothing more.
    #[inline]
    pub fn flush(&mut self, mut sent: impl FnMut(&[u8])) -> usize {
        let n = std::mem::take(&mut self.len);
        let mut at = 0;
        while at < n && !self.stuck {
            let list = &mut self.descriptors.list[at..n];
            // SAFETY: the number is valid while we are inside. Each pointer leads to a descriptor whose packet is
            // borrowed by `self` ('f), or by the caller of `send_now` during this call. The library reads those and,
            // if a checksum is requested, writes to a packet that is borrowed as `mut`; it keeps no pointer, frees
            // nothing, checks the ring's number and takes its lock.
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
                // SAFETY: as above: the packet is borrowed, in one piece and of this length.
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

    /// Interrupts sent to guests by this thread since the last call.
    #[inline]
    pub fn interrupts(&mut self) -> u64 {
        take_interrupts()
    }

    /// How often the rest of a burst was offered again.
    #[inline]
    pub fn retries(&self) -> u32 {
        self.retries
    }
}
