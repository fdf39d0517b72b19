//! Sends to a guest.
//!
//! The library copies a packet into the guest's memory during the call and keeps no reference to it. So a frame can be sent
//! from any memory, without a DPDK packet buffer: the library gets an mbuf of the sender that points to the frame's
//! bytes. The mbufs of a sender are reused and stay in its core's cache. The mbufs of received packets are not accessed,
//! and frames of kernel ports are copied once, not twice.

use super::bounds::BURST;
use super::callbacks::take_interrupts;
use super::device_access::{Accessor, VidAccess};
use super::port_state::PortState;
use crate::offload_request::OffloadRequest;
use dpdk_sys as sys;
use packet::offload::Offload;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use vhost::feature;

/// The sender's mbufs, which point to frames, and the array of pointers that is passed to the library.
struct SenderMbufs {
    mbufs: [sys::rte_mbuf; BURST],
    /// The second segments of packets that need two.
    tails: [sys::rte_mbuf; BURST],
    list: [*mut sys::rte_mbuf; BURST],
}

// SAFETY: the pointers are only used while a `Sending` borrows the frames to which they point.
unsafe impl Send for SenderMbufs {}

impl SenderMbufs {
    fn new() -> Box<SenderMbufs> {
        // SAFETY: all zeros are valid for these structures, which consist of numbers and pointers, not references.
        let mut new: Box<SenderMbufs> = unsafe { Box::new(std::mem::zeroed()) };
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
    sender_mbufs: Box<SenderMbufs>,
}

impl ToGuest {
    pub(super) fn new(port: &Arc<PortState>, slot: usize) -> ToGuest {
        ToGuest {
            accessor: port.access.accessor(),
            port: port.clone(),
            slot,
            sender_mbufs: SenderMbufs::new(),
        }
    }

    /// Whether the guest accepts TCP frames that need segmentation, over IPv4 and IPv6.
    pub fn accepts_large(&self) -> bool {
        let wants = feature::GUEST_CSUM | feature::GUEST_TSO4 | feature::GUEST_TSO6;
        self.port.features.load(Ordering::Relaxed) & wants == wants
    }

    /// Begins a transmission to an enabled ring; `None` if no ring is enabled. If the ring accepts only part of a burst,
    /// the rest is passed to the ring again, up to `retries` times.
    #[inline]
    pub fn begin<'q, 'f>(&'q mut self, retries: u32) -> Option<Sending<'q, 'f>> {
        let ring = self.port.pair_of_sender(self.slot)? * 2;
        let access = self.port.access.enter(&mut self.accessor)?;
        let features = self.port.features.load(Ordering::Relaxed);
        Some(Sending {
            access,
            ring,
            features,
            sender_mbufs: &mut self.sender_mbufs,
            len: 0,
            retries_left: retries,
            retries: 0,
            ring_full: false,
            frames: PhantomData,
        })
    }
}

/// A transmission to one ring. Until it is dropped, it borrows the frames, and the library cannot remove the guest.
pub struct Sending<'q, 'f> {
    access: VidAccess<'q>,
    ring: u16,
    features: u64,
    sender_mbufs: &'q mut SenderMbufs,
    len: usize,
    retries_left: u32,
    retries: u32,
    /// The ring was full, so no further packets are sent.
    ring_full: bool,
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
    pub fn supports(&self, bytes: &[u8], offload: &Offload) -> bool {
        self.request(bytes, offload).is_some()
    }

    /// Appends a packet. Returns false if the burst is full, or the packet is too long for any ring.
    #[inline]
    pub fn push(&mut self, bytes: &'f [u8]) -> bool {
        self.put(bytes.as_ptr().cast_mut(), bytes.len(), &OffloadRequest::default())
    }

    /// Appends a packet with an offload request. Returns false if the burst is full, or the guest does not support the
    /// request.
    pub fn push_with_offload(&mut self, bytes: &'f mut [u8], offload: &Offload) -> bool {
        let Some(request) = self.request(bytes, offload) else { return false };
        // `mut`, because the library writes the checksum of the pseudo header again.
        self.put(bytes.as_mut_ptr(), bytes.len(), &request)
    }

    /// The request in DPDK's form; `None` if the guest does not support it.
    fn request(&self, bytes: &[u8], offload: &Offload) -> Option<OffloadRequest> {
        let request = OffloadRequest::of(bytes, offload)?;
        // For UDP the library would request fragmentation (`VIRTIO_NET_HDR_GSO_UDP`).
        if request.segmentation.is_some_and(|kind| !kind.is_tcp()) {
            return None;
        }
        let wants = feature::GUEST_CSUM | request.segmentation.map_or(0, feature::segmentation_by_guest);
        (self.features & wants == wants).then_some(request)
    }

    /// Appends a packet to the burst. Returns false if the burst is full, or the packet is longer than an mbuf segment may be.
    #[inline]
    fn put(&mut self, data: *mut u8, len: usize, request: &OffloadRequest) -> bool {
        // For a packet to be segmented, the library would write the pseudo-header checksum that NICs need, without the length. Guests need
        // the checksum with the length, and the packet already has that one. The library does not change headers that are not in one
        // segment, so the packet is split at its transport header.
        let first = if request.segmentation.is_some() { request.l4 } else { len };
        let (Ok(first), Ok(rest)) = (u16::try_from(first), u16::try_from(len - first)) else { return false };
        let Some(mbuf) = self.sender_mbufs.mbufs.get_mut(self.len) else { return false };
        mbuf.buf_addr = data.cast();
        mbuf.data_len = first;
        mbuf.buf_len = first;
        mbuf.pkt_len = len as u32;
        mbuf.ol_flags = request.flags;
        mbuf.tx_offload = request.lengths;
        (mbuf.nb_segs, mbuf.next) = (1, std::ptr::null_mut());
        if rest > 0 {
            let tail = &mut self.sender_mbufs.tails[self.len];
            tail.buf_addr = data.wrapping_add(usize::from(first)).cast();
            tail.data_len = rest;
            tail.buf_len = rest;
            (mbuf.nb_segs, mbuf.next) = (2, tail);
        }
        self.sender_mbufs.list[self.len] = mbuf;
        self.len += 1;
        true
    }

    /// Sends the pushed packets, and then this packet at once. Returns how many packets were not sent.
    pub fn send_now(&mut self, bytes: &[u8], mut sent: impl FnMut(&[u8])) -> usize {
        let before = self.flush(&mut sent);
        if !self.put(bytes.as_ptr().cast_mut(), bytes.len(), &OffloadRequest::default()) {
            return before + 1;
        }
        before + self.flush(&mut sent)
    }

    /// Sends the pushed packets, and calls `sent` for each packet that was put into the ring. Returns how many packets were not sent.
    /// When the ring is full, this `Sending` sends no further packets.
    #[inline]
    pub fn flush(&mut self, mut sent: impl FnMut(&[u8])) -> usize {
        let n = std::mem::take(&mut self.len);
        let mut at = 0;
        while at < n && !self.ring_full {
            let list = &mut self.sender_mbufs.list[at..n];
            // SAFETY: the vid is valid during the access. Each pointer is to an mbuf whose packet is
            // borrowed by `self` ('f), or by the caller of `send_now` during this call. The library reads the packets and,
            // if a checksum is requested, writes to a packet that is borrowed as `mut`. It stores no pointer, frees
            // nothing, checks the ring's number and takes its lock.
            let k = unsafe {
                sys::rte_vhost_enqueue_burst(
                    self.access.vid(),
                    self.ring,
                    list.as_mut_ptr(),
                    list.len() as u16,
                )
            };
            let k = usize::from(k).min(n - at);
            for mbuf in &self.sender_mbufs.mbufs[at..at + k] {
                // SAFETY: the packet is borrowed as above; it is contiguous and has this length.
                sent(unsafe { std::slice::from_raw_parts(mbuf.buf_addr.cast(), mbuf.pkt_len as usize) });
            }
            at += k;
            if at < n {
                match (k, self.retries_left) {
                    (0, _) | (_, 0) => self.ring_full = true,
                    _ => {
                        self.retries_left -= 1;
                        self.retries += 1;
                    }
                }
            }
        }
        n - at
    }

    /// Number of interrupts that this thread sent to guests since the last call.
    #[inline]
    pub fn interrupts(&mut self) -> u64 {
        take_interrupts()
    }

    /// How often the rest of a burst was passed to the ring again.
    #[inline]
    pub fn retries(&self) -> u32 {
        self.retries
    }
}
