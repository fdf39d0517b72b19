//! A ring of either memory format, of a guest with or without an IOMMU. The format is matched once for each call, not for each packet.

use super::RingError;
use super::descriptor::Addresses;
use super::fill::{FillResult, Packet};
use super::layout::Layout;
use super::packed::Packed;
use super::split::Split;
use super::state::{EventfdsAndLog, Ring, StartPosition};
use super::tail_leases::TailLeases;
use crate::address_space::IovaSpace;
use crate::feature;
use crate::guest::Received;
use crate::iotlb::Iotlb;
use crate::memory::GuestMemory;
use packet::frame::{FrameBatch, FramePool};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// A ring that is in use. Only one worker at a time accesses it. `IovaSplit`, `IovaPacked`: rings of a guest with an IOMMU.
#[derive(Debug)]
pub(crate) enum AnyRing {
    Split(Ring<Split>),
    Packed(Ring<Packed>),
    IovaSplit(Ring<Split<IovaSpace>>),
    IovaPacked(Ring<Packed<IovaSpace>>),
}

/// The address space of a new ring.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Space<'a> {
    Physical(&'a Arc<GuestMemory>),
    Iova(&'a IovaSpace),
}

/// Evaluates one expression for the ring of either format.
macro_rules! on_ring {
    ($any:expr, $ring:ident => $what:expr) => {
        match $any {
            AnyRing::Split($ring) => $what,
            AnyRing::Packed($ring) => $what,
            AnyRing::IovaSplit($ring) => $what,
            AnyRing::IovaPacked($ring) => $what,
        }
    };
}

/// Evaluates the first expression for the ring of a guest with an IOMMU, and the second for other rings.
macro_rules! on_iova_ring {
    ($any:expr, $ring:ident => $what:expr, $otherwise:expr) => {
        match $any {
            AnyRing::Split(_) | AnyRing::Packed(_) => $otherwise,
            AnyRing::IovaSplit($ring) => $what,
            AnyRing::IovaPacked($ring) => $what,
        }
    };
}

impl AnyRing {
    /// Creates a ring in the negotiated format; see [`Ring::new`].
    pub fn new(
        space: Space<'_>,
        at: Addresses,
        size: u16,
        features: u64,
        start: StartPosition,
        old: Option<&AnyRing>,
    ) -> Result<Option<AnyRing>, RingError> {
        macro_rules! ring {
            ($format:ident, $space:expr) => {{
                let old =
                    old.and_then(|old| if let AnyRing::$format(ring) = old { Some(ring) } else { None });
                Ring::new($space, at, size, features, start, old)?.map(AnyRing::$format)
            }};
        }
        Ok(match (space, features & feature::RING_PACKED) {
            (Space::Physical(memory), 0) => ring!(Split, memory),
            (Space::Physical(memory), _) => ring!(Packed, memory),
            (Space::Iova(space), 0) => ring!(IovaSplit, space),
            (Space::Iova(space), _) => ring!(IovaPacked, space),
        })
    }

    /// Whether the ring is valid in this memory: all its parts are in the memory and aligned, and its size is valid.
    pub fn fits(space: Space<'_>, at: Addresses, size: u16, features: u64) -> Result<bool, RingError> {
        let event_index = features & feature::EVENT_IDX != 0;
        Ok(match (space, features & feature::RING_PACKED) {
            (Space::Physical(memory), 0) => Split::new(memory, at, size, event_index)?.is_some(),
            (Space::Physical(memory), _) => Packed::new(memory, at, size, event_index)?.is_some(),
            (Space::Iova(space), 0) => Split::new(space, at, size, event_index)?.is_some(),
            (Space::Iova(space), _) => Packed::new(space, at, size, event_index)?.is_some(),
        })
    }

    /// Uses other translations from now on. Returns whether the ring was waiting for a translation, and continues now.
    pub fn set_iotlb(&mut self, iotlb: &Arc<Iotlb>) -> bool {
        on_iova_ring!(self, ring => ring.set_iotlb(iotlb), false)
    }

    /// Looks up the next buffers of a ring that the guest receives on: see [`Ring::request_ahead`].
    pub fn request_ahead(&self) {
        on_iova_ring!(self, ring => ring.request_ahead(), ());
    }

    /// Whether the worker must report to the serving thread: invalid data, or pages whose translations are missing.
    #[inline]
    pub fn has_report(&self) -> bool {
        on_iova_ring!(self, ring => ring.has_report(), self.invalid().is_some())
    }

    /// The address space of a guest with an IOMMU; `None`: it has none.
    pub fn iova_space(&self) -> Option<&IovaSpace> {
        on_iova_ring!(self, ring => Some(ring.layout.space()), None)
    }

    /// Sets the eventfds of the ring and the log of its writes.
    pub fn set_eventfds_and_log(&mut self, eventfds_and_log: EventfdsAndLog) {
        on_ring!(self, ring => ring.eventfds_and_log = eventfds_and_log);
    }

    /// The ring position: the value that `GET_VRING_BASE` returns.
    pub fn position(&self) -> u16 {
        on_ring!(self, ring => ring.next)
    }

    /// The eventfd by which the guest kicks.
    pub fn kick(&self) -> Option<&Arc<OwnedFd>> {
        on_ring!(self, ring => ring.eventfds_and_log.kick.as_ref())
    }

    /// The invalid data that the guest wrote into this ring, if any. If it is set, the ring is not read again.
    #[inline]
    pub fn invalid(&self) -> Option<RingError> {
        on_ring!(self, ring => ring.invalid)
    }

    #[inline]
    pub fn features(&self) -> u64 {
        on_ring!(self, ring => ring.features())
    }

    /// Number of available entries of a split ring, or of available descriptors of a packed ring.
    pub fn available(&self) -> Result<u16, RingError> {
        on_ring!(self, ring => ring.layout.available(ring.next))
    }

    /// Requests that the guest kicks when it adds the next entry, or that it does not kick.
    pub fn request_kicks(&mut self, on: bool) {
        on_ring!(self, ring => ring.request_kicks(on));
    }

    /// Receives packets from the ring: see [`Ring::receive`].
    #[inline]
    pub fn receive(
        &mut self,
        max: usize,
        pool: &mut FramePool,
        out: &mut FrameBatch,
        leases: Option<&mut TailLeases>,
    ) -> Received {
        on_ring!(self, ring => ring.receive(max, pool, out, leases))
    }

    /// Whether used entries of the last burst are not published yet, because of leased tails or held buffers.
    pub fn is_deferred(&self) -> bool {
        on_ring!(self, ring => ring.deferred)
    }

    /// Whether the position of the ring is recorded in an inflight area.
    #[inline]
    pub fn has_inflight_area(&self) -> bool {
        on_ring!(self, ring => ring.layout.has_inflight_area())
    }

    /// Marks the held buffers as used and publishes them, without an interrupt: see [`Ring::release`].
    pub fn release(&mut self) {
        on_ring!(self, ring => ring.release());
    }

    /// Publishes the used entries of a deferred burst: see [`Ring::publish_deferred`]. Returns the number of interrupts.
    pub fn publish_deferred(&mut self) -> u64 {
        on_ring!(self, ring => ring.publish_deferred())
    }

    /// Publishes the used entries that are not published yet, unless they are deferred: see [`Ring::publish_rest`]. Returns the number of
    /// interrupts.
    pub fn publish_rest(&mut self) -> u64 {
        on_ring!(self, ring => ring.publish_rest())
    }

    /// Copies packets into the guest's buffers: see [`Ring::fill`].
    #[inline]
    pub fn fill<P: Packet>(&mut self, items: &[P], sent: impl FnMut(&[u8], usize)) -> FillResult {
        on_ring!(self, ring => ring.fill(items, sent))
    }
}
