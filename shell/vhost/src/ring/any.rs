//! A ring of either memory format: the format is matched once for a burst.

use super::InvalidRing;
use super::access::Split;
use super::descriptor::Addresses;
use super::fill::{Filled, Packet};
use super::layout::Layout;
use super::loans::Loans;
use super::packed::Packed;
use super::split::{Ring, Start, Wiring};
use crate::feature;
use crate::guest::Received;
use crate::memory::GuestMemory;
use packet::frame::{FrameBatch, FramePool};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// A ring that is in use. One worker at a time has it.
#[derive(Debug)]
pub(crate) enum AnyRing {
    Split(Ring<Split>),
    Packed(Ring<Packed>),
}

/// What is the same for both formats.
macro_rules! each {
    ($any:expr, $ring:ident => $what:expr) => {
        match $any {
            AnyRing::Split($ring) => $what,
            AnyRing::Packed($ring) => $what,
        }
    };
}

impl AnyRing {
    /// A ring in the format that was negotiated; see [`Ring::new`].
    pub fn new(
        memory: &Arc<GuestMemory>,
        at: Addresses,
        size: u16,
        features: u64,
        start: Start,
        old: Option<&AnyRing>,
    ) -> Result<Option<AnyRing>, InvalidRing> {
        if features & feature::RING_PACKED == 0 {
            let old = old.and_then(|old| if let AnyRing::Split(ring) = old { Some(ring) } else { None });
            return Ok(Ring::new(memory, at, size, features, start, old)?.map(AnyRing::Split));
        }
        let old = old.and_then(|old| if let AnyRing::Packed(ring) = old { Some(ring) } else { None });
        Ok(Ring::new(memory, at, size, features, start, old)?.map(AnyRing::Packed))
    }

    /// Whether the ring lies in this memory.
    pub fn fits(memory: &Arc<GuestMemory>, at: Addresses, size: u16, features: u64) -> bool {
        let event_index = features & feature::EVENT_IDX != 0;
        match features & feature::RING_PACKED {
            0 => Split::new(memory, at, size, event_index).is_some(),
            _ => Packed::new(memory, at, size, event_index).is_some(),
        }
    }

    /// Sets how the ring notifies and is notified.
    pub fn wire(&mut self, wiring: Wiring) {
        each!(self, ring => ring.wiring = wiring);
    }

    /// Where the ring is: what `GET_VRING_BASE` returns of it.
    pub fn place(&self) -> u16 {
        each!(self, ring => ring.next)
    }

    /// The eventfd by which the guest kicks.
    pub fn kick(&self) -> Option<&Arc<OwnedFd>> {
        each!(self, ring => ring.wiring.kick.as_ref())
    }

    /// Invalid data that the guest wrote into this ring: it is not read again.
    #[inline]
    pub fn invalid(&self) -> Option<InvalidRing> {
        each!(self, ring => ring.invalid)
    }

    #[inline]
    pub fn features(&self) -> u64 {
        each!(self, ring => ring.features())
    }

    /// Number of packets, or of descriptors, that wait.
    pub fn waiting(&self) -> Result<u16, InvalidRing> {
        each!(self, ring => ring.memory.waiting(ring.next))
    }

    /// Asks the guest to kick for the next entry, or not to kick.
    pub fn ask_for_kicks(&mut self, on: bool) {
        each!(self, ring => ring.ask_for_kicks(on));
    }

    /// Takes packets off the ring: see [`Ring::receive`].
    #[inline]
    pub fn receive(
        &mut self,
        max: usize,
        pool: &mut FramePool,
        out: &mut FrameBatch,
        loans: Option<&mut Loans>,
    ) -> Received {
        each!(self, ring => ring.receive(max, pool, out, loans))
    }

    /// Whether packets of the last burst are lent.
    pub fn is_lent(&self) -> bool {
        each!(self, ring => ring.lent)
    }

    /// Whether the ring is noted in an inflight area.
    #[inline]
    pub fn is_noted(&self) -> bool {
        each!(self, ring => ring.memory.is_noted())
    }

    /// Gives the buffers back that are held: see [`Ring::release`].
    pub fn release(&mut self) {
        each!(self, ring => ring.release());
    }

    /// Gives the guest the buffers of a burst with loans back: see [`Ring::publish_lent`].
    pub fn publish_lent(&mut self) -> u64 {
        each!(self, ring => ring.publish_lent())
    }

    /// Gives the guest back what waits: see [`Ring::publish_rest`].
    pub fn publish_rest(&mut self) -> u64 {
        each!(self, ring => ring.publish_rest())
    }

    /// Puts packets into the guest's buffers: see [`Ring::fill`].
    #[inline]
    pub fn fill<P: Packet>(&mut self, items: &[P], sent: impl FnMut(&[u8], usize)) -> Filled {
        each!(self, ring => ring.fill(items, sent))
    }
}
