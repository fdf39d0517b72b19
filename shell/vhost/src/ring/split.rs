//! The state of a split ring.

use super::Lie;
use super::access::{Addresses, RingMemory};
use super::chain::{Direction, Walk};
use crate::feature;
use crate::memory::GuestMemory;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Length of the packet header (virtio 1.2, 5.1.6), and of the form without the number of buffers.
pub(crate) const HEADER: usize = 12;
pub(crate) const HEADER_SHORT: usize = 10;

/// A ring that is in use. One worker at a time has it.
#[derive(Debug)]
pub(crate) struct Ring {
    pub memory: RingMemory,
    /// The next entry of the available ring, which is also the next one of the used ring: buffers are given back in
    /// order, within the burst that took them.
    pub next: u16,
    /// The used index at the last interrupt decision; `None`: there was none.
    signalled: Option<u16>,
    features: u64,
    /// The region that an address was found in last.
    pub hint: usize,
    /// By which the guest kicks; `None`: it does not kick.
    pub kick: Option<Arc<OwnedFd>>,
    /// By which the guest is interrupted; `None`: it polls.
    pub call: Option<Arc<OwnedFd>>,
    /// The guest was asked to kick.
    kicks: bool,
    /// The guest lied in this ring: nothing is read any more.
    pub lie: Option<Lie>,
}

impl Ring {
    /// `None`: a part of the ring is not in the guest's memory. The ring continues where its used ring ends: buffers are
    /// in use during a burst only, so after a switch that was killed no other index is right. A ring that replaces
    /// another one continues where that one was.
    pub fn new(
        memory: &Arc<GuestMemory>,
        at: Addresses,
        size: u16,
        features: u64,
        old: Option<&Ring>,
    ) -> Option<Ring> {
        let memory = RingMemory::new(memory, at, size, features & feature::EVENT_IDX != 0)?;
        let mut ring = Ring {
            next: old.map_or_else(|| memory.used_index(), |old| old.next),
            memory,
            signalled: old.and_then(|old| old.signalled),
            features,
            hint: 0,
            kick: None,
            call: None,
            kicks: false,
            lie: old.and_then(|old| old.lie),
        };
        ring.ask_for_kicks(old.is_some_and(|old| old.kicks));
        Some(ring)
    }

    #[inline]
    pub fn has(&self, feature: u64) -> bool {
        self.features & feature != 0
    }

    pub fn features(&self) -> u64 {
        self.features
    }

    /// Length of the header in front of each packet.
    #[inline]
    pub fn header(&self) -> usize {
        if self.has(feature::VERSION_1 | feature::MRG_RXBUF) { HEADER } else { HEADER_SHORT }
    }

    #[inline]
    pub fn walk(&self, direction: Direction) -> Walk<'_> {
        Walk { ring: &self.memory, direction, indirect: self.has(feature::INDIRECT) }
    }

    /// Number of entries that the guest offers.
    #[inline]
    pub fn offered(&self) -> Result<u16, Lie> {
        let n = self.memory.available_index().wrapping_sub(self.next);
        if n > self.memory.size() { Err(Lie::Index) } else { Ok(n) }
    }

    /// Shows the guest the entries before `next`, and interrupts it if it wants that. Returns the number of interrupts.
    #[inline]
    pub fn publish(&mut self) -> u64 {
        self.memory.publish(self.next);
        let before = self.signalled.replace(self.next);
        if !self.memory.wants_interrupt(before, self.next, self.has(feature::EVENT_IDX)) {
            return 0;
        }
        let Some(call) = &self.call else { return 0 };
        // Fails if the counter is full: then the guest has an interrupt that it did not take.
        let _ = rustix::io::write(&**call, &1u64.to_ne_bytes());
        1
    }

    /// Asks the guest to kick for the next entry, or not to kick.
    pub fn ask_for_kicks(&mut self, on: bool) {
        self.kicks = on;
        self.memory.ask_for_kicks(on.then_some(self.next), self.has(feature::EVENT_IDX));
    }
}
