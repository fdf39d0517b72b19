//! The state of a split ring.

use super::InvalidRing;
use super::access::{Addresses, Descriptor, RingMemory};
use super::chain::{Direction, Walk};
use crate::dirty::DirtyLog;
use crate::feature;
use crate::memory::{GuestMemory, LINE, Part};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Length of the packet header (virtio 1.2, 5.1.6), and of the form without the number of buffers.
pub(crate) const HEADER: usize = 12;
pub(crate) const HEADER_SHORT: usize = 10;

/// Entries that are read at once, so that the cache misses of their descriptors and buffers overlap.
pub(crate) const BURST: usize = 32;
/// Descriptors in a cache line.
const PER_LINE: u16 = (LINE / Descriptor::BYTES) as u16;
/// Bytes of a buffer that are prefetched: an Ethernet frame with its header.
pub(crate) const AHEAD: usize = 1536;

/// Entries of the available ring with their first descriptors, each read once.
#[derive(Debug)]
pub(crate) struct Burst<'m> {
    heads: [u16; BURST],
    first: [Descriptor; BURST],
    whole: [Part<'m>; BURST],
    len: usize,
}

/// An entry of a burst.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<'b, 'm> {
    /// The number of its first descriptor.
    pub head: u16,
    pub first: &'b Descriptor,
    /// The whole buffer, if it can be used directly: one descriptor of the right direction, in one region. Empty: walk the chain.
    pub whole: Part<'m>,
}

impl<'m> Burst<'m> {
    pub fn new() -> Burst<'m> {
        Burst {
            heads: [0; BURST],
            first: [Descriptor::default(); BURST],
            whole: [Part::EMPTY; BURST],
            len: 0,
        }
    }

    /// Entry `n`.
    #[inline(always)]
    pub fn get(&self, n: usize) -> Option<Entry<'_, 'm>> {
        if n >= self.len.min(BURST) {
            return None;
        }
        Some(Entry { head: self.heads[n], first: &self.first[n], whole: self.whole[n] })
    }

    /// The number of the first descriptor of entry `n`.
    #[inline(always)]
    pub fn head(&self, n: usize) -> u16 {
        self.heads.get(n).copied().unwrap_or(0)
    }

    /// The buffer of entry `n`; empty if there is no such entry.
    #[inline(always)]
    pub fn whole(&self, n: usize) -> Part<'m> {
        self.whole.get(n).copied().unwrap_or(Part::EMPTY)
    }
}

/// The log of a ring's writes, for live migration.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    pub dirty: Arc<DirtyLog>,
    /// The guest's address of the used ring; `None`: it is not logged.
    pub used: Option<u64>,
}

impl Log {
    /// Logs what a burst wrote into the used ring: entries from `before` to `now`, and the index.
    #[cold]
    fn used(&self, before: u16, now: u16, size: u16) {
        let Some(used) = self.used else { return };
        self.dirty.mark(used, 4);
        for n in 0..now.wrapping_sub(before) {
            let slot = u64::from(before.wrapping_add(n) & (size - 1));
            self.dirty.mark(used.saturating_add(4 + 8 * slot), 8);
        }
    }
}

/// Position of a burst in the ring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor {
    pub next: u16,
    /// Entries from `next` on that the burst may use.
    pub left: u16,
    pub hint: usize,
}

impl Cursor {
    /// Moves on by `n` entries; `n` is at most `left`.
    #[inline]
    pub fn advance(&mut self, n: u16) {
        self.next = self.next.wrapping_add(n);
        self.left -= n;
    }
}

/// A ring that is in use. One worker at a time has it.
#[derive(Debug)]
pub(crate) struct Ring {
    pub memory: RingMemory,
    /// The next entry of the available ring, which is also the next one of the used ring: buffers are given back in
    /// order, within the burst that took them.
    pub next: u16,
    /// The index of the available ring at its last read. It is read again only if a burst needs more entries, because each read takes a
    /// cache line from the guest's core.
    seen: u16,
    /// The used index at the last interrupt decision; `None`: there was none.
    signalled: Option<u16>,
    features: u64,
    /// The region that an address was found in last.
    pub hint: usize,
    /// The eventfd by which the guest kicks; `None`: it does not kick.
    pub kick: Option<Arc<OwnedFd>>,
    /// The eventfd by which the guest is interrupted; `None`: it polls.
    pub call: Option<Arc<OwnedFd>>,
    /// The guest was asked to kick.
    kicks: bool,
    /// The previous burst found packets.
    pub busy: bool,
    /// Where the entries begin that the guest does not see as used yet, because packets were lent.
    pub unshown: Option<u16>,
    /// Writes are logged, for live migration.
    pub log: Option<Log>,
    /// Invalid data that the guest wrote into this ring: it is not read again.
    pub invalid: Option<InvalidRing>,
}

impl Ring {
    /// `None`: a part of the ring is not in the guest's memory.
    ///
    /// A ring that replaces another one (`old`) continues where that one was. A ring without `old` continues at the index of its used
    /// ring: buffers are in use only during a burst, so this is right also after the switch was killed and restarted.
    pub fn new(
        memory: &Arc<GuestMemory>,
        at: Addresses,
        size: u16,
        features: u64,
        old: Option<&Ring>,
    ) -> Option<Ring> {
        let memory = RingMemory::new(memory, at, size, features & feature::EVENT_IDX != 0)?;
        let next = old.map_or_else(|| memory.used_index(), |old| old.next);
        let mut ring = Ring {
            next,
            seen: next,
            memory,
            signalled: old.and_then(|old| old.signalled),
            features,
            hint: 0,
            kick: None,
            call: None,
            kicks: false,
            busy: false,
            unshown: None,
            log: None,
            invalid: old.and_then(|old| old.invalid),
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
    pub fn offered(&self) -> Result<u16, InvalidRing> {
        let n = self.memory.available_index().wrapping_sub(self.next);
        if n > self.memory.size() { Err(InvalidRing::Index) } else { Ok(n) }
    }

    /// Number of entries that the guest offers, for a burst of `wanted`. If the last index read has enough, it is not read again; so
    /// there may be more entries than returned if the result is at least `wanted`.
    #[inline]
    pub fn offered_for(&mut self, wanted: u16) -> Result<u16, InvalidRing> {
        if self.known() >= wanted {
            return Ok(self.known());
        }
        let n = self.offered()?;
        self.seen = self.next.wrapping_add(n);
        Ok(n)
    }

    /// Reads `n` entries, at most [`BURST`], which the guest offers, into `burst`, and calls `prefetch` for each buffer
    /// that is used directly, with its place in the burst.
    #[inline(always)]
    pub fn read_burst<'m>(
        &'m self,
        cursor: &Cursor,
        n: u16,
        direction: Direction,
        burst: &mut Burst<'m>,
        prefetch: impl Fn(usize, &Part<'m>),
    ) -> Result<(), InvalidRing> {
        let n = usize::from(n).min(BURST);
        let mut line = u16::MAX;
        for (head, i) in burst.heads[..n].iter_mut().zip(0..) {
            *head = self.memory.available(cursor.next.wrapping_add(i));
            // Drivers use descriptors in order: most share a line with the one before.
            if *head / PER_LINE != line {
                line = *head / PER_LINE;
                self.memory.prefetch(*head);
            }
        }
        // Buffers are used directly if their headers have 12 bytes and no write is logged.
        let plain = self.header() == HEADER && (self.log.is_none() || direction == Direction::FromGuest);
        let flags = if direction == Direction::ToGuest { Descriptor::WRITE } else { 0 };
        let window = self.memory.memory().window(cursor.hint);
        let entries = burst.heads[..n].iter().zip(&mut burst.first).zip(&mut burst.whole);
        for (at, ((head, first), whole)) in entries.enumerate() {
            *first = self.memory.descriptor(*head).ok_or(InvalidRing::Head)?;
            let is_one = first.flags(Descriptor::NEXT | Descriptor::WRITE | Descriptor::INDIRECT) == flags;
            if let Some(part) = window.part(first.address, first.len())
                && is_one & plain
            {
                prefetch(at, &part);
                *whole = part;
            }
        }
        burst.len = n;
        Ok(())
    }

    /// The beginning of a burst that may use `left` entries.
    #[inline]
    pub fn cursor(&self, left: u16) -> Cursor {
        Cursor { next: self.next, left, hint: self.hint }
    }

    /// Stores the position at the end of a burst, also of one that invalid data ended.
    #[inline]
    pub fn end(&mut self, cursor: &Cursor) {
        (self.next, self.hint) = (cursor.next, cursor.hint);
    }

    /// Stores the index that a burst knew at its end: it may have read it again.
    #[inline]
    pub fn set_known(&mut self, cursor: &Cursor) {
        self.seen = cursor.next.wrapping_add(cursor.left);
    }

    /// Entry `index`, with its first descriptor.
    pub fn entry(&self, index: u16) -> Result<(u16, Descriptor), InvalidRing> {
        let head = self.memory.available(index);
        Ok((head, self.memory.descriptor(head).ok_or(InvalidRing::Head)?))
    }

    /// Prefetches the descriptors of the next `n` entries, at most [`BURST`]. If the guest has not written these entries yet, they still
    /// name the descriptors of the previous round, which drivers mostly use again. Drivers use descriptors in order, so one address
    /// for each cache line is enough.
    #[inline]
    pub fn prefetch_next(&self, n: u16) {
        for i in (0..n.min(BURST as u16)).step_by(usize::from(PER_LINE)) {
            self.memory.prefetch(self.memory.available(self.next.wrapping_add(i)));
        }
    }

    /// Number of entries that are known to be offered.
    #[inline]
    pub fn known(&self) -> u16 {
        self.seen.wrapping_sub(self.next)
    }

    /// Shows the guest the entries from `start` to `next`, and interrupts it if it wants that. Returns the number of
    /// interrupts.
    #[inline]
    pub fn publish(&mut self, start: u16) -> u64 {
        self.memory.publish(self.next);
        if let Some(log) = &self.log {
            log.used(start, self.next, self.memory.size());
        }
        let before = self.signalled.replace(self.next);
        let Some(call) = &self.call else { return 0 };
        if !self.memory.wants_interrupt(before, self.next, self.has(feature::EVENT_IDX)) {
            return 0;
        }
        // Fails if the counter is full: then the guest has an interrupt that it has not handled.
        let _ = rustix::io::write(&**call, &1u64.to_ne_bytes());
        1
    }

    /// Asks the guest to kick for the next entry, or not to kick.
    pub fn ask_for_kicks(&mut self, on: bool) {
        self.kicks = on;
        self.memory.ask_for_kicks(on.then_some(self.next), self.has(feature::EVENT_IDX));
    }
}
