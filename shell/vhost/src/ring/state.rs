//! The state of a ring of either format ([`Ring`]), and a burst of its entries ([`Burst`]).

use super::RingError;
use super::chain::{Direction, Walk};
use super::descriptor::{Addresses, Descriptor};
use super::inflight::InflightRegion;
use super::layout::Layout;
use crate::address_space::{AddressSpace, IovaSpace};
use crate::dirty::DirtyLog;
use crate::feature;
use crate::iotlb::Iotlb;
use crate::memory::Part;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Bytes of the virtio header in front of each packet (virtio 1.2, 5.1.6), with the number of buffers.
pub(crate) const HEADER: usize = 12;
/// Bytes of the virtio header without the number of buffers, if neither `VIRTIO_F_VERSION_1` nor `VIRTIO_NET_F_MRG_RXBUF` was negotiated.
pub(crate) const HEADER_SHORT: usize = 10;

/// Number of entries that are read at once, so that the cache misses of their descriptors and buffers overlap.
pub(crate) const BURST: usize = 32;
/// Number of bytes of a buffer that are prefetched: enough for an Ethernet frame of 1,518 bytes with its virtio header.
pub(crate) const AHEAD: usize = 1536;

/// Entries of the available ring with their first descriptors, each read once.
#[derive(Debug)]
pub(crate) struct Burst<'m> {
    heads: [u16; BURST],
    first: [Descriptor; BURST],
    buffer: [Part<'m>; BURST],
    len: usize,
}

/// An entry of a burst.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<'b, 'm> {
    /// The number of its first descriptor.
    pub head: u16,
    pub first: &'b Descriptor,
    /// The buffer, if it can be accessed directly: one descriptor of the right direction, in one region. Empty: the chain must be walked.
    pub buffer: Part<'m>,
}

impl<'m> Burst<'m> {
    pub fn new() -> Burst<'m> {
        Burst {
            heads: [0; BURST],
            first: [Descriptor::default(); BURST],
            buffer: [Part::EMPTY; BURST],
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
        Some(Entry { head: self.heads[n], first: &self.first[n], buffer: self.buffer[n] })
    }

    /// The number of the first descriptor of entry `n`.
    #[inline(always)]
    pub fn head(&self, n: usize) -> u16 {
        self.heads.get(n).copied().unwrap_or(0)
    }

    /// The buffer of entry `n`, if it can be accessed directly; otherwise empty.
    #[inline(always)]
    pub fn buffer(&self, n: usize) -> Part<'m> {
        self.buffer.get(n).copied().unwrap_or(Part::EMPTY)
    }
}

/// The log of a ring's writes, for live migration.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    pub dirty: Arc<DirtyLog>,
    /// The guest-physical address of the used ring; `None`: writes to the used ring are not logged.
    pub used: Option<u64>,
}

/// The eventfds of a ring, and the log of its writes.
#[derive(Clone, Debug, Default)]
pub(crate) struct EventfdsAndLog {
    /// The eventfd by which the guest kicks; `None`: the guest does not kick, the switch polls.
    pub kick: Option<Arc<OwnedFd>>,
    /// The eventfd by which the guest is interrupted; `None`: the guest polls.
    pub call: Option<Arc<OwnedFd>>,
    /// The log of writes during live migration; `None`: writes are not logged.
    pub log: Option<Log>,
}

/// The sources of the position at which a ring starts.
#[derive(Clone, Debug, Default)]
pub(crate) struct StartPosition {
    /// The position from the front-end (`SET_VRING_BASE`).
    pub base: Option<u16>,
    /// The ring's region of the inflight area, with the position of an earlier back-end; this ring records its position there.
    pub region: Option<InflightRegion>,
}

/// A buffer that was received from a packed ring: its position, its buffer id, and the number of its descriptors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReceivedBuffer {
    pub position: u16,
    pub id: u16,
    pub slots: u16,
}

/// Position of a burst in the ring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor {
    /// Position of the next entry.
    pub next: u16,
    /// Number of entries from `next` on that the burst may use, if they are available.
    pub left: u16,
    /// Index of the memory region in which an address was found last.
    pub last_region: usize,
    pub deferred_first: DeferredFirst,
}

/// The first buffer of a packed ring that a call of `fill` uses. It is marked as used last, so that the guest sees all packets of the call
/// at once. `used`: its buffer id and length; `None`: it has no packet yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeferredFirst {
    pub position: u16,
    pub used: Option<(u16, u32)>,
}

impl Cursor {
    /// Advances by `n` entries, at most `left`, to position `next`.
    #[inline]
    pub fn advance(&mut self, next: u16, n: u16) {
        self.next = next;
        self.left -= n;
    }
}

/// The state of a ring that is in use. Only one worker at a time accesses it.
#[derive(Debug)]
pub(crate) struct Ring<L> {
    /// The words of the ring in guest memory.
    pub layout: L,
    /// The position of the next entry. It is also the position at which the next buffer is marked as used, because a burst marks its
    /// buffers as used in order before it ends.
    pub next: u16,
    /// The index of the available ring at its last read. The index is read again only if a burst needs more entries, because each read
    /// transfers a cache line from the guest's core.
    seen_index: u16,
    /// The used index at the last interrupt decision; `None`: there was no decision yet.
    pub signalled: Option<u16>,
    features: u64,
    /// Index of the memory region in which an address was found last.
    pub last_region: usize,
    pub eventfds_and_log: EventfdsAndLog,
    /// The guest was requested to kick.
    kicks_requested: bool,
    /// The previous burst found packets.
    pub had_packets: bool,
    /// End of the entries that the guest sees as used. Entries from here to `next` are not [published](super::publish_used) yet.
    pub published: u16,
    /// The used entries of the last burst must not be published yet, because its packets have leased tails or its buffers are held.
    pub deferred: bool,
    /// Buffers of a packed ring that are held: received, but not marked as used.
    pub held: Vec<ReceivedBuffer>,
    /// The guest did not request an interrupt at the last decision: it polls.
    pub is_polling: bool,
    /// Number of bursts since the last one that found packets. It saturates.
    pub empty_bursts: u16,
    /// The invalid data that the guest wrote into this ring, if any. If it is set, the ring is not read again; if it is
    /// [`RingError::Untranslated`], not until the IOTLB changes.
    pub invalid: Option<RingError>,
}

impl<L: Layout> Ring<L> {
    /// Creates a ring. It continues at the position of the ring `old` that it replaces, or at the position recorded in `region`, or at
    /// the position that the format chooses ([`Layout::resume`]). `Ok(None)`: a part of the ring is not in the guest's memory, or
    /// `base` is not a position of this ring.
    pub fn new(
        space: &L::Space,
        at: Addresses,
        size: u16,
        features: u64,
        StartPosition { base, region }: StartPosition,
        old: Option<&Ring<L>>,
    ) -> Result<Option<Ring<L>>, RingError> {
        let layout = L::new(space, at, size, features & feature::EVENT_IDX != 0)?;
        let Some(mut layout) = layout else { return Ok(None) };
        let old = old.filter(|old| old.layout.size() == size);
        let was_initialized = region
            .as_ref()
            .map_or(Some(false), InflightRegion::was_initialized)
            .ok_or(RingError::Inflight)?;
        let next = match (old, &region) {
            (Some(old), _) => Some(old.next),
            (None, Some(region)) if was_initialized => {
                Some(layout.recover(region).ok_or(RingError::Inflight)?)
            }
            (None, _) => layout.resume(base),
        };
        let Some(next) = next else { return Ok(None) };
        if let Some(region) = region {
            layout.attach_inflight(region, next);
        }
        let mut ring = Ring {
            next,
            seen_index: next,
            layout,
            signalled: old.and_then(|old| old.signalled),
            features,
            last_region: 0,
            eventfds_and_log: EventfdsAndLog::default(),
            kicks_requested: false,
            had_packets: false,
            published: next,
            deferred: false,
            held: Vec::new(),
            is_polling: false,
            empty_bursts: 0,
            invalid: old.and_then(|old| old.invalid).filter(|why| *why != RingError::Untranslated),
        };
        ring.request_kicks(old.is_some_and(|old| old.kicks_requested));
        Ok(Some(ring))
    }

    #[inline]
    pub fn has(&self, feature: u64) -> bool {
        self.features & feature != 0
    }

    pub fn features(&self) -> u64 {
        self.features
    }

    /// Length of the virtio header in front of each packet.
    #[inline]
    pub fn header(&self) -> usize {
        if self.has(feature::VERSION_1 | feature::MRG_RXBUF) { HEADER } else { HEADER_SHORT }
    }

    #[inline]
    pub fn walk(&self, direction: Direction) -> Walk<'_, L> {
        Walk { ring: &self.layout, direction, indirect: self.has(feature::INDIRECT) }
    }

    /// Number of available entries, for a burst of `wanted` entries. The index is read again only if the last value is not enough. So if
    /// the result is at least `wanted`, more entries may be available. In a packed ring fewer entries than the result may be available,
    /// but at least one if the result is not 0.
    #[inline]
    pub fn offered_for(&mut self, wanted: u16) -> Result<u16, RingError> {
        if L::PACKED {
            return self.layout.offered(self.next);
        }
        if self.known_available() >= wanted {
            return Ok(self.known_available());
        }
        let n = self.layout.offered(self.next)?;
        self.seen_index = self.next.wrapping_add(n);
        Ok(n)
    }

    /// Reads `n` available entries, at most [`BURST`], into `burst`. Calls `prefetch` for each buffer that can be accessed directly,
    /// with its index in the burst. In a packed ring it stops before an entry that is not available and after an entry with several
    /// descriptors, because the position of the entry after it is not known yet.
    #[inline(always)]
    pub fn read_burst<'m>(
        &'m self,
        cursor: &Cursor,
        n: u16,
        direction: Direction,
        burst: &mut Burst<'m>,
        prefetch: impl Fn(usize, &Part<'m>),
    ) -> Result<(), RingError> {
        let n = usize::from(n).min(BURST);
        self.layout.read_heads(cursor.next, &mut burst.heads[..n]);
        // Buffers are accessed directly only if their headers have 12 bytes and no write is logged.
        let direct = self.header() == HEADER
            && (self.eventfds_and_log.log.is_none() || direction == Direction::FromGuest);
        let flags = if direction == Direction::ToGuest { Descriptor::WRITE } else { 0 };
        let space = self.layout.space();
        let cached_region = space.cached_region(cursor.last_region);
        let entries = burst.heads[..n].iter_mut().zip(&mut burst.first).zip(&mut burst.buffer);
        for (at, ((head, first), buffer)) in entries.enumerate() {
            match self.layout.first(cursor.next, at as u16, head)? {
                Some(descriptor) => *first = descriptor,
                None => break,
            }
            if L::PACKED {
                burst.len = at + 1;
            }
            let is_one = first.flags(Descriptor::NEXT | Descriptor::WRITE | Descriptor::INDIRECT) == flags;
            // Other descriptors are not looked up in an IOTLB: the buffer of an indirect one is a table, which needs another access.
            let part = match L::Space::TRANSLATES && !(is_one & direct) {
                true => None,
                false => space.buffer(&cached_region, first.address, first.len(), direction.access()),
            };
            if let Some(part) = part
                && is_one & direct
            {
                prefetch(at, &part);
                *buffer = part;
            } else if L::PACKED && first.has(Descriptor::NEXT) {
                break;
            }
        }
        if !L::PACKED {
            burst.len = n;
        }
        Ok(())
    }

    /// The start of a burst that may use `left` entries.
    #[inline]
    pub fn cursor(&self, left: u16) -> Cursor {
        let deferred_first = DeferredFirst { position: self.next, used: None };
        Cursor { next: self.next, left, last_region: self.last_region, deferred_first }
    }

    /// Stores the position at the end of a burst, also of a burst that ended because of invalid data.
    #[inline]
    pub fn end(&mut self, cursor: &Cursor) {
        (self.next, self.last_region) = (cursor.next, cursor.last_region);
    }

    /// Stores the available index that a burst knew at its end: the burst may have read the index again.
    #[inline]
    pub fn set_known_available(&mut self, cursor: &Cursor) {
        self.seen_index = cursor.next.wrapping_add(cursor.left);
    }

    /// The entry at `position`: the number of its first descriptor, and that descriptor; `None`: it is not available.
    pub fn entry(&self, position: u16) -> Result<Option<(u16, Descriptor)>, RingError> {
        let mut head = [0];
        self.layout.read_heads(position, &mut head);
        let [mut head] = head;
        let first = self.layout.first(position, 0, &mut head)?;
        Ok(first.map(|first| (head, first)))
    }

    /// Prefetches the descriptors of the next `n` entries, at most [`BURST`].
    #[inline]
    pub fn prefetch_next(&self, n: u16) {
        self.layout.prefetch_next(self.next, n.min(BURST as u16));
    }

    /// Number of entries that are known to be available. For a packed ring this is not known; then [`BURST`].
    #[inline]
    pub fn known_available(&self) -> u16 {
        if L::PACKED { BURST as u16 } else { self.seen_index.wrapping_sub(self.next) }
    }

    /// Requests that the guest kicks when it adds the next entry, or that it does not kick.
    pub fn request_kicks(&mut self, on: bool) {
        self.kicks_requested = on;
        self.layout.request_kicks(on.then_some(self.next), self.has(feature::EVENT_IDX));
    }
}

/// The ring of a guest with an IOMMU.
impl<L: Layout<Space = IovaSpace>> Ring<L> {
    /// Uses other translations from now on. Returns whether the ring was waiting for a translation, and continues now.
    pub fn set_iotlb(&mut self, iotlb: &Arc<Iotlb>) -> bool {
        self.layout.space_mut().set_iotlb(iotlb);
        let waited = self.invalid == Some(RingError::Untranslated);
        self.invalid = self.invalid.filter(|_| !waited);
        waited
    }

    /// Whether the worker must report invalid data, or pages whose translations are missing.
    pub fn has_report(&self) -> bool {
        self.layout.space().has_misses() || self.invalid.is_some_and(|why| why != RingError::Untranslated)
    }
}
