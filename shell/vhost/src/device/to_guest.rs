//! Sends packets to a guest.

use super::{Device, RingAccess};
use crate::feature;
use crate::ring::any::AnyRing;
use crate::ring::fill::{Item, Packet};
use crate::ring::state::BURST;
use arrayvec::ArrayVec;
use packet::frame::Frame;
use packet::offload::Offload;
use packet::vnet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The packets of a burst, for [`ToGuest::begin`]. The caller owns them, so that a [`Sending`] is small and cheap to move.
#[derive(Debug, Default)]
pub struct Packets<'f>(ArrayVec<Item<'f>, BURST>);

/// One sender. Several senders may fill the same ring, one at a time.
#[derive(Debug)]
pub struct ToGuest {
    device: Arc<Device>,
    slot: usize,
}

impl ToGuest {
    pub(crate) fn new(device: &Arc<Device>, slot: usize) -> ToGuest {
        ToGuest { device: Arc::clone(device), slot }
    }

    /// Whether the guest accepts TCP frames that need segmentation, over IPv4 and IPv6.
    pub fn accepts_large(&self) -> bool {
        let needed = feature::GUEST_CSUM | feature::GUEST_TSO4 | feature::GUEST_TSO6;
        self.device.port.features.load(Ordering::Relaxed) & needed == needed
    }

    /// Begins a transmission to an enabled ring; `None` if no ring is enabled. `packets` must be empty. If the ring accepts only part of a
    /// burst, the rest is passed to the ring again, up to `retries` times.
    #[inline]
    pub fn begin<'q, 'f>(
        &'q mut self,
        packets: &'q mut Packets<'f>,
        retries: u32,
    ) -> Option<Sending<'q, 'f>> {
        let pair = usize::from(self.device.port.pair_of_sender(self.slot)?);
        // The guest's receive ring has an even number.
        let ring = self.device.enter_shared(2 * pair)?;
        let items = &mut packets.0;
        let progress = Progress { retries_left: retries, ..Progress::default() };
        Some(Sending { ring, pair, items, progress })
    }
}

/// A transmission to one ring. Until it is dropped, no other thread can access the ring.
pub struct Sending<'q, 'f> {
    ring: RingAccess<'q>,
    pair: usize,
    items: &'q mut ArrayVec<Item<'f>, BURST>,
    progress: Progress,
}

#[derive(Clone, Copy, Default)]
struct Progress {
    retries_left: u32,
    retries: u32,
    interrupts: u64,
    full: bool,
}

impl<'f> Sending<'_, 'f> {
    /// Whether `flush` must be called before the next `push`.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.items.is_full()
    }

    /// The queue pair whose ring is filled.
    #[inline]
    pub fn pair(&self) -> usize {
        self.pair
    }

    /// Whether the guest accepts a packet of `len` bytes with this offload request. `head`: the beginning of the packet, at least
    /// [`Offload::needed_head_len`] bytes.
    pub fn supports(&self, head: &[u8], len: usize, offload: &Offload) -> bool {
        let segmentation = offload.gso.map_or(0, |gso| feature::segmentation_by_guest(gso.kind));
        let ecn = offload.gso.filter(|gso| gso.ecn).map_or(0, |_| feature::GUEST_ECN);
        let needed = offload.csum.map_or(0, |_| feature::GUEST_CSUM) | segmentation | ecn;
        self.ring.features() & needed == needed && offload.fits_head(head, len)
    }

    /// Appends a packet. Returns false if the `packets` of [`ToGuest::begin`] are full.
    #[inline]
    pub fn push(&mut self, bytes: &'f [u8]) -> bool {
        self.items.try_push(Item::new(bytes)).is_ok()
    }

    /// As [`Sending::push`], for a frame. If the frame has a tail, the tail is copied directly to the guest's buffer, not to the frame first.
    #[inline]
    pub fn push_frame(&mut self, frame: &'f Frame) -> bool {
        self.items.try_push(Item::from_frame(frame)).is_ok()
    }

    /// Appends a packet with an offload request. Returns false if `packets` is full, or the guest does not support the request.
    pub fn push_with_offload(&mut self, frame: &'f Frame, offload: &Offload) -> bool {
        let head = frame.head_of(offload.needed_head_len());
        let header = vnet::encode(offload, head);
        self.supports(head, frame.len(), offload)
            && self.items.try_push(Item::with_offload(frame, header)).is_ok()
    }

    /// Sends the pushed packets, and then this packet at once. Returns how many packets were not sent.
    pub fn send_now(&mut self, bytes: &[u8], mut sent: impl FnMut(&[u8], usize)) -> usize {
        let before = self.flush(&mut sent);
        let item = Item::new(bytes);
        before + self.progress.offer(&mut self.ring, &[item], &mut sent)
    }

    /// Sends the pushed packets. Calls `sent` for each packet that was put into the ring, with its bytes (without the tail, if it has one) and its
    /// length. Returns how many packets were not sent. When the ring is full, this `Sending` sends no further packets.
    #[inline]
    pub fn flush(&mut self, mut sent: impl FnMut(&[u8], usize)) -> usize {
        let unsent = self.progress.offer(&mut self.ring, &self.items[..], &mut sent);
        self.items.clear();
        unsent
    }

    /// Sends frames without offload requests, as [`Sending::flush`] sends pushed packets. No pushed packet may be waiting.
    #[inline]
    pub fn send_frames(&mut self, frames: &[Frame], mut sent: impl FnMut(&[u8], usize)) -> usize {
        self.progress.offer(&mut self.ring, frames, &mut sent)
    }

    /// Number of interrupts sent to the guest since the last call.
    #[inline]
    pub fn interrupts(&mut self) -> u64 {
        std::mem::take(&mut self.progress.interrupts)
    }

    /// How often the rest of a burst was passed to the ring again.
    #[inline]
    pub fn retries(&self) -> u32 {
        self.progress.retries
    }
}

impl Progress {
    /// Puts packets into the ring. Returns the number of packets that were not sent.
    #[inline]
    fn offer<P: Packet>(
        &mut self,
        ring: &mut AnyRing,
        items: &[P],
        sent: &mut impl FnMut(&[u8], usize),
    ) -> usize {
        let (mut rest, mut unsent) = (items, 0);
        while !rest.is_empty() && !self.full {
            let filled = ring.fill(rest, &mut *sent);
            self.interrupts += filled.interrupts;
            unsent += filled.too_long;
            rest = &rest[filled.handled..];
            if !rest.is_empty() {
                match (filled.handled, self.retries_left) {
                    (0, _) | (_, 0) => self.full = true,
                    _ => {
                        self.retries_left -= 1;
                        self.retries += 1;
                    }
                }
            }
        }
        unsent + rest.len()
    }
}
