//! The interface of the two memory formats of a ring. The code of a burst is compiled once for each format, so the format is not checked
//! for each packet.

use super::RingError;
use super::descriptor::{Addresses, Descriptor};
use super::inflight::InflightRegion;
use crate::address_space::AddressSpace;
use crate::dirty::DirtyLog;
use crate::memory::GuestMemory;
use std::fmt::Debug;
use std::sync::Arc;

/// A ring in guest memory, whose addresses were translated and checked. A *ring position* is, in a split ring, an index that counts
/// entries; in a packed ring, a descriptor number, with the wrap counter in the highest bit.
pub(crate) trait Layout: Debug + Sized {
    /// Whether this is the packed format. A packed ring has no index: the flags of a descriptor show whether it is available. The
    /// descriptors of a chain, and those of an indirect table, are consecutive.
    const PACKED: bool;

    /// How the addresses in descriptors are translated.
    type Space: AddressSpace;

    /// Translates and checks the ring's addresses. `Ok(None)`: a part of the ring is not in the guest's memory or not aligned, or the size
    /// is invalid. The event indexes are accessed only if `event_index` is set.
    fn new(
        space: &Self::Space,
        at: Addresses,
        size: u16,
        event_index: bool,
    ) -> Result<Option<Self>, RingError>;

    fn space(&self) -> &Self::Space;

    fn space_mut(&mut self) -> &mut Self::Space;

    #[inline(always)]
    fn memory(&self) -> &Arc<GuestMemory> {
        self.space().memory()
    }

    /// Whether tails may stay in the guest's memory until packets were sent. False for a packed ring: there, marking a buffer as used also
    /// publishes it. False for a ring with an inflight area: its buffers are returned before the packets are sent
    /// ([`Layout::has_inflight_area`]). False if the guest has an IOMMU: an invalidation would have to wait for the leases.
    fn supports_leases(&self) -> bool;

    /// Whether the ring's position is recorded in an inflight area. Then the buffers of packets that the guest sends are
    /// [held](packet::held_buffers) until the packets are handed over.
    fn has_inflight_area(&self) -> bool;

    /// Number of descriptors of the ring.
    fn size(&self) -> u16;

    /// The position at which a ring that was stopped at `base` continues; `None`: the ring has no such position.
    fn resume(&self, base: Option<u16>) -> Option<u16>;

    /// Starts to record the ring's position in `region`, beginning with `position`.
    fn attach_inflight(&mut self, region: InflightRegion, position: u16);

    /// Returns the position at which the ring continues after the previous switch was killed, from the record in `region`, and repairs
    /// descriptors that were only partly marked as used. `None`: the region is invalid.
    fn recover(&self, region: &InflightRegion) -> Option<u16>;

    /// The position `slots` after this one.
    fn after(&self, position: u16, slots: u16) -> u16;

    /// Upper limit of the number of available entries from `position` on; 0: no entry is available.
    fn offered(&self, position: u16) -> Result<u16, RingError>;

    /// Number of available entries (split ring) or descriptors (packed ring) from `position` on.
    fn available(&self, position: u16) -> Result<u16, RingError>;

    /// Reads the descriptor numbers of the entries from `position` on. Does nothing in a packed ring, which has no such numbers.
    fn read_heads(&self, position: u16, heads: &mut [u16]);

    /// The first descriptor of the entry `n` after `position`; `None`: the entry is not available. `head`: the descriptor's number (split
    /// ring), or an output for the entry's buffer id (packed ring).
    fn first(&self, position: u16, n: u16, head: &mut u16) -> Result<Option<Descriptor>, RingError>;

    /// Descriptor `n` of the chain at `position`. `before`: descriptor `n - 1` of the chain, which in a split
    /// ring contains the number of descriptor `n` in the ring. `None`: this number is beyond the ring.
    fn following(&self, position: u16, n: u16, before: &Descriptor) -> Option<Descriptor>;

    /// A descriptor of an indirect table, from its two words.
    fn in_table(address: u64, rest: u64) -> Descriptor;

    /// Prefetches the descriptors of the next `n` entries from `position` on.
    fn prefetch_next(&self, position: u16, n: u16);

    /// Prefetches the words that are read and written at the end of a burst.
    fn prefetch_end(&self, position: u16, event_index: bool);

    /// Must be called before buffers of `n` descriptors from `position` on are marked as used. `together`: the first descriptor is marked
    /// as used last, which returns all of them to the guest.
    fn begin_used(&self, position: u16, n: u16, together: bool);

    /// As [`Layout::begin_used`], for a call that marks the descriptor at `first` as used last, and with it all packets of the call:
    /// the descriptors from `first` to `position`, and `n` descriptors from `position` on.
    fn begin_deferred(&self, _first: u16, _position: u16, _n: u16) {}

    /// Marks the buffer `id` at `position` as used. The guest sees it after [`Layout::publish`] at the latest.
    fn put_used(&self, position: u16, id: u16, len: u32);

    /// Makes all used entries before `position` visible to the guest.
    fn publish(&self, position: u16);

    /// Whether the guest requests an interrupt for used entries from `before` to `now`; `event_index`: event indexes were negotiated.
    fn needs_interrupt(&self, before: Option<u16>, now: u16, event_index: bool) -> bool;

    /// Requests that the guest kicks when it makes the entry at `next` available; `None`: that it does not kick.
    fn request_kicks(&self, next: Option<u16>, event_index: bool);

    /// Logs the used entries from `before` to `now`; `used`: the guest-physical address of the used ring, if its writes are logged.
    fn mark_dirty(&self, log: &DirtyLog, used: Option<u64>, before: u16, now: u16);
}
