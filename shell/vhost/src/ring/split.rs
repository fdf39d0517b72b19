//! The state of a ring.

use super::InvalidRing;
use super::chain::{Direction, Walk};
use super::descriptor::{Addresses, Descriptor};
use super::inflight::Region;
use super::layout::Layout;
use crate::dirty::DirtyLog;
use crate::feature;
use crate::memory::{GuestMemory, Part};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Length of the packet header (virtio 1.2, 5.1.6), and of the form without the number of buffers.
pub(crate) const HEADER: usize = 12;
pub(crate) const HEADER_SHORT: usize = 10;

/// Entries that are read at once, so that the cache misses of their descriptors and buffers overlap.
pub(crate) const BURST: usize = 32;
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

    /// Number of entries.
    #[inline(always)]
    pub fn len(&self) -> u16 {
        self.len as u16
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

/// How a ring notifies and is notified, and where its writes are logged.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wiring {
    /// The eventfd by which the guest kicks; `None`: it does not kick.
    pub kick: Option<Arc<OwnedFd>>,
    /// The eventfd by which the guest is interrupted; `None`: it polls.
    pub call: Option<Arc<OwnedFd>>,
    /// Writes are logged, for live migration.
    pub log: Option<Log>,
}

/// What says where a ring begins.
#[derive(Clone, Debug, Default)]
pub(crate) struct Start {
    /// What the front-end says (`SET_VRING_BASE`).
    pub base: Option<u16>,
    /// What the inflight area says, and where the ring is noted from then on.
    pub region: Option<Region>,
}

/// A buffer that was taken off a packed ring: its place, its number, and how many descriptors it has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    pub place: u16,
    pub id: u16,
    pub slots: u16,
}

/// Position of a burst in the ring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor {
    pub next: u16,
    /// Entries from `next` on that the burst may use, if they are offered.
    pub left: u16,
    pub hint: usize,
    pub hidden: Hidden,
}

/// The buffer of a packed ring by which all packets of a call are shown to the guest at once: its place, and its number and length
/// if it has a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hidden {
    pub place: u16,
    pub used: Option<(u16, u32)>,
}

impl Cursor {
    /// Moves on by `n` entries to `next`; `n` is at most `left`.
    #[inline]
    pub fn advance(&mut self, next: u16, n: u16) {
        self.next = next;
        self.left -= n;
    }
}

/// A ring that is in use. One worker at a time has it.
#[derive(Debug)]
pub(crate) struct Ring<L> {
    pub memory: L,
    /// The place of the next entry, which is also the place where the next buffer is given back: buffers are given back in
    /// order, within the burst that took them.
    pub next: u16,
    /// The index of the available ring at its last read. It is read again only if a burst needs more entries, because each read takes a
    /// cache line from the guest's core.
    seen: u16,
    /// The used index at the last interrupt decision; `None`: there was none.
    pub signalled: Option<u16>,
    features: u64,
    /// The region that an address was found in last.
    pub hint: usize,
    pub wiring: Wiring,
    /// The guest was asked to kick.
    kicks: bool,
    /// The previous burst found packets.
    pub busy: bool,
    /// End of the entries that the guest sees as used. Entries from here to `next` wait to be
    /// [published](super::publish_used).
    pub published: u16,
    /// Packets of the last burst are lent, or held, so its entries must wait.
    pub lent: bool,
    /// Buffers of a packed ring that are held.
    pub held: Vec<Taken>,
    /// The guest does not want to be interrupted, as far as is known.
    pub is_polling: bool,
    /// Bursts since the last one that found packets, up to a limit.
    pub empty: u16,
    /// Invalid data that the guest wrote into this ring: it is not read again.
    pub invalid: Option<InvalidRing>,
}

impl<L: Layout> Ring<L> {
    /// `Ok(None)`: a part of the ring is not in the guest's memory, or `base` is no place of it. The ring continues at `base`,
    /// or where the format says that it was (see [`Layout::resume`]), or where `region` says that. A ring that replaces
    /// another one continues where that one was.
    pub fn new(
        memory: &Arc<GuestMemory>,
        at: Addresses,
        size: u16,
        features: u64,
        Start { base, region }: Start,
        old: Option<&Ring<L>>,
    ) -> Result<Option<Ring<L>>, InvalidRing> {
        let memory = L::new(memory, at, size, features & feature::EVENT_IDX != 0);
        let Some(mut memory) = memory else { return Ok(None) };
        let old = old.filter(|old| old.memory.size() == size);
        let was_used = region.as_ref().map_or(Some(false), Region::was_used).ok_or(InvalidRing::Inflight)?;
        let next = match (old, &region) {
            (Some(old), _) => Some(old.next),
            (None, Some(region)) if was_used => Some(memory.recover(region).ok_or(InvalidRing::Inflight)?),
            (None, _) => memory.resume(base),
        };
        let Some(next) = next else { return Ok(None) };
        if let Some(region) = region {
            memory.keep(region, next);
        }
        let mut ring = Ring {
            next,
            seen: next,
            memory,
            signalled: old.and_then(|old| old.signalled),
            features,
            hint: 0,
            wiring: Wiring::default(),
            kicks: false,
            busy: false,
            published: next,
            lent: false,
            held: Vec::new(),
            is_polling: false,
            empty: 0,
            invalid: old.and_then(|old| old.invalid),
        };
        ring.ask_for_kicks(old.is_some_and(|old| old.kicks));
        Ok(Some(ring))
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
    pub fn walk(&self, direction: Direction) -> Walk<'_, L> {
        Walk { ring: &self.memory, direction, indirect: self.has(feature::INDIRECT) }
    }

    /// Number of entries that the guest offers, for a burst of `wanted`. If the last index read has enough, it is not read again; so
    /// there may be more entries than returned if the result is at least `wanted`. In a packed ring there may be fewer than
    /// returned, but one at least.
    #[inline]
    pub fn offered_for(&mut self, wanted: u16) -> Result<u16, InvalidRing> {
        if L::PACKED {
            return self.memory.offered(self.next);
        }
        if self.known() >= wanted {
            return Ok(self.known());
        }
        let n = self.memory.offered(self.next)?;
        self.seen = self.next.wrapping_add(n);
        Ok(n)
    }

    /// Reads `n` entries, at most [`BURST`], which the guest offers, into `burst`, and calls `prefetch` for each buffer
    /// that is used directly, with its number in the burst. Of a packed ring it reads those that are offered, at most up
    /// to the first with several descriptors.
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
        self.memory.read_heads(cursor.next, &mut burst.heads[..n]);
        // Buffers are used directly if their headers have 12 bytes and no write is logged.
        let plain =
            self.header() == HEADER && (self.wiring.log.is_none() || direction == Direction::FromGuest);
        let flags = if direction == Direction::ToGuest { Descriptor::WRITE } else { 0 };
        let window = self.memory.memory().window(cursor.hint);
        let entries = burst.heads[..n].iter_mut().zip(&mut burst.first).zip(&mut burst.whole);
        for (at, ((head, first), whole)) in entries.enumerate() {
            match self.memory.first(cursor.next, at as u16, head)? {
                Some(descriptor) => *first = descriptor,
                None => break,
            }
            if L::PACKED {
                burst.len = at + 1;
            }
            let is_one = first.flags(Descriptor::NEXT | Descriptor::WRITE | Descriptor::INDIRECT) == flags;
            if let Some(part) = window.part(first.address, first.len())
                && is_one & plain
            {
                prefetch(at, &part);
                *whole = part;
            } else if L::PACKED && first.has(Descriptor::NEXT) {
                break;
            }
        }
        if !L::PACKED {
            burst.len = n;
        }
        Ok(())
    }

    /// The beginning of a burst that may use `left` entries.
    #[inline]
    pub fn cursor(&self, left: u16) -> Cursor {
        let hidden = Hidden { place: self.next, used: None };
        Cursor { next: self.next, left, hint: self.hint, hidden }
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

    /// The entry at `place`, with its first descriptor; `None`: it is not offered.
    pub fn entry(&self, place: u16) -> Result<Option<(u16, Descriptor)>, InvalidRing> {
        let mut head = [0];
        self.memory.read_heads(place, &mut head);
        let [mut head] = head;
        let first = self.memory.first(place, 0, &mut head)?;
        Ok(first.map(|first| (head, first)))
    }

    /// Prefetches the descriptors of the next `n` entries, at most [`BURST`].
    #[inline]
    pub fn prefetch_next(&self, n: u16) {
        self.memory.prefetch_next(self.next, n.min(BURST as u16));
    }

    /// Number of entries that are known to be offered; in a packed ring that of a burst.
    #[inline]
    pub fn known(&self) -> u16 {
        if L::PACKED { BURST as u16 } else { self.seen.wrapping_sub(self.next) }
    }

    /// Asks the guest to kick for the next entry, or not to kick.
    pub fn ask_for_kicks(&mut self, on: bool) {
        self.kicks = on;
        self.memory.ask_for_kicks(on.then_some(self.next), self.has(feature::EVENT_IDX));
    }
}
