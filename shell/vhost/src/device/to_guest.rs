//! Sending to a guest.

use super::{Device, Inside};
use crate::feature;
use crate::ring::any::AnyRing;
use crate::ring::fill::{Item, Packet};
use crate::ring::split::BURST;
use arrayvec::ArrayVec;
use packet::frame::Frame;
use packet::offload::{GsoKind, Offload};
use packet::vnet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Packets of a burst, for [`ToGuest::begin`]. The caller keeps them, so that a [`Sending`] is small and can be moved.
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
    pub fn takes_large(&self) -> bool {
        let wants = feature::GUEST_CSUM | feature::GUEST_TSO4 | feature::GUEST_TSO6;
        self.device.port.features.load(Ordering::Relaxed) & wants == wants
    }

    /// Begins a transmission to an enabled ring; `None` if no ring is enabled. If the ring takes only part of a burst,
    /// the rest is offered again, up to `retries` times. `packets` is empty.
    #[inline]
    pub fn begin<'q, 'f>(
        &'q mut self,
        packets: &'q mut Packets<'f>,
        retries: u32,
    ) -> Option<Sending<'q, 'f>> {
        let pair = usize::from(self.device.port.ring_of(self.slot)?);
        let ring = self.device.enter_shared(2 * pair)?;
        let items = &mut packets.0;
        let progress = Progress { retries_left: retries, ..Progress::default() };
        Some(Sending { ring, pair, items, progress })
    }
}

/// A transmission to one ring. Until it is dropped, no other thread has the ring.
pub struct Sending<'q, 'f> {
    ring: Inside<'q>,
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
    /// [`Offload::reach`] bytes.
    pub fn takes(&self, head: &[u8], len: usize, offload: &Offload) -> bool {
        let segmentation = match offload.gso.map(|gso| gso.kind) {
            None => 0,
            Some(GsoKind::Tcp4) => feature::GUEST_TSO4,
            Some(GsoKind::Tcp6) => feature::GUEST_TSO6,
            Some(GsoKind::Udp) => return false,
        };
        let ecn = offload.gso.filter(|gso| gso.ecn).map_or(0, |_| feature::GUEST_ECN);
        let wants = offload.csum.map_or(0, |_| feature::GUEST_CSUM) | segmentation | ecn;
        self.ring.features() & wants == wants && offload.fits_head(head, len)
    }

    /// Appends a packet. Returns false if there is no room.
    #[inline]
    pub fn push(&mut self, bytes: &'f [u8]) -> bool {
        self.items.try_push(Item::new(bytes)).is_ok()
    }

    /// As [`Sending::push`], for a frame. If it has a tail, that is copied to the guest's buffer only.
    #[inline]
    pub fn push_frame(&mut self, frame: &'f Frame) -> bool {
        self.items.try_push(Item::of(frame)).is_ok()
    }

    /// Appends a packet with an offload request. Returns false if there is no room, or the guest does not support the
    /// request.
    pub fn push_with_offload(&mut self, frame: &'f Frame, offload: &Offload) -> bool {
        let head = frame.head_of(offload.reach());
        let header = vnet::encode(offload, head);
        self.takes(head, frame.len(), offload) && self.items.try_push(Item::with(frame, header)).is_ok()
    }

    /// Sends a packet at once, after those that were pushed before. Returns how many packets were not sent.
    pub fn send_now(&mut self, bytes: &[u8], mut sent: impl FnMut(&[u8], usize)) -> usize {
        let before = self.flush(&mut sent);
        let item = Item::new(bytes);
        before + self.progress.offer(&mut self.ring, &[item], &mut sent)
    }

    /// Sends the pushed packets. For each packet that was put into the ring it calls `sent` with the bytes that are present (an absent
    /// tail is not) and the length. Returns how many packets were not sent. Once the ring is full, this `Sending` sends nothing more.
    #[inline]
    pub fn flush(&mut self, mut sent: impl FnMut(&[u8], usize)) -> usize {
        let unsent = self.progress.offer(&mut self.ring, &self.items[..], &mut sent);
        self.items.clear();
        unsent
    }

    /// Sends frames without offload requests, as [`Sending::flush`] sends pushed packets. No packet may be pushed when it is called.
    #[inline]
    pub fn send_frames(&mut self, frames: &[Frame], mut sent: impl FnMut(&[u8], usize)) -> usize {
        self.progress.offer(&mut self.ring, frames, &mut sent)
    }

    /// Interrupts sent to the guest since the last call.
    #[inline]
    pub fn interrupts(&mut self) -> u64 {
        std::mem::take(&mut self.progress.interrupts)
    }

    /// How often the rest of a burst was offered again.
    #[inline]
    pub fn retries(&self) -> u32 {
        self.progress.retries
    }
}

impl Progress {
    /// Puts the packets into the ring; returns the number of those that were not sent.
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
