//! The interface of the two memory formats of a ring. Bursts are compiled once for each format, so no packet needs a
//! decision about the format.

use super::InvalidRing;
use super::descriptor::{Addresses, Descriptor};
use super::inflight::Region;
use crate::dirty::DirtyLog;
use crate::memory::GuestMemory;
use std::fmt::Debug;
use std::sync::Arc;

/// A ring in guest memory, whose addresses were translated and checked. A *place* says where a burst is: in a split ring
/// an index that counts entries, in a packed ring a descriptor and the wrap counter (in the highest bit).
pub(crate) trait Layout: Debug + Sized {
    /// The ring has no index: whether an entry is offered is seen in its descriptor only. Descriptors of a chain and of an
    /// indirect table follow each other.
    const PACKED: bool;

    /// `None`: a part of the ring is not in the guest's memory, or not aligned, or no ring has this size. The event
    /// indexes are accessed only if `event_index`.
    fn new(memory: &Arc<GuestMemory>, at: Addresses, size: u16, event_index: bool) -> Option<Self>;

    fn memory(&self) -> &Arc<GuestMemory>;

    /// Whether tails may stay in the guest's memory until packets were sent. A packed ring gives each buffer back by itself. The buffers
    /// of a ring that is noted in an inflight area go back before the packets are sent: see [`Layout::is_noted`].
    fn lends(&self) -> bool;

    /// Whether the ring is noted in an inflight area. Then the buffers of packets that the guest sends are [held](packet::held) until
    /// the packets are handed over.
    fn is_noted(&self) -> bool;

    /// Descriptors of the ring.
    fn size(&self) -> u16;

    /// The place where a ring goes on that was stopped at `base`, if there is such a place.
    fn resume(&self, base: Option<u16>) -> Option<u16>;

    /// From now on `region` says where the ring is, at `place` now.
    fn keep(&mut self, region: Region, place: u16);

    /// The place where a ring goes on of which `region` says where it was; what is not right any more after a switch that was
    /// killed is put right. `None`: the region is invalid.
    fn recover(&self, region: &Region) -> Option<u16>;

    /// The place `slots` after this one.
    fn after(&self, place: u16, slots: u16) -> u16;

    /// Number of entries that the guest may offer from `place` on; 0: none.
    fn offered(&self, place: u16) -> Result<u16, InvalidRing>;

    /// Number of entries that wait at `place`.
    fn waiting(&self, place: u16) -> Result<u16, InvalidRing>;

    /// Reads the numbers of first descriptors from `place` on, if they are not in the descriptors.
    fn read_heads(&self, place: u16, heads: &mut [u16]);

    /// The first descriptor of the entry `n` after `place`; `None`: it is not offered. `head` is its number, or gets it.
    fn first(&self, place: u16, n: u16, head: &mut u16) -> Result<Option<Descriptor>, InvalidRing>;

    /// Descriptor `n` of the chain at `place`, which `before` leads to; `None`: it is beyond the ring.
    fn following(&self, place: u16, n: u16, before: &Descriptor) -> Option<Descriptor>;

    /// A descriptor of an indirect table.
    fn in_table(address: u64, rest: u64) -> Descriptor;

    /// Prefetches what the next `n` entries from `place` on will be read from.
    fn prefetch_next(&self, place: u16, n: u16);

    /// Prefetches what the end of a burst reads and writes.
    fn prefetch_end(&self, place: u16, event_index: bool);

    /// To be called before buffers of `n` descriptors from `place` on are given back. If `together`, the first of them is given
    /// back last, and with it all others.
    fn begin_used(&self, place: u16, n: u16, together: bool);

    /// As [`Layout::begin_used`], for buffers that are shown to the guest by that at `first`, which is given back last of all: those from
    /// `first` to `place`, and `n` descriptors from there on.
    fn begin_hidden(&self, _first: u16, _place: u16, _n: u16) {}

    /// Gives the buffer `id` at `place` back. The guest sees it after [`Layout::publish`] at the latest.
    fn put_used(&self, place: u16, id: u16, len: u32);

    /// Shows the guest all entries before `place`.
    fn publish(&self, place: u16);

    /// Whether the guest wants an interrupt for entries from `before` to `now`; `event_index`: it was negotiated.
    fn wants_interrupt(&self, before: Option<u16>, now: u16, event_index: bool) -> bool;

    /// Asks the guest to kick when it offers the entry at `next`, or not to kick.
    fn ask_for_kicks(&self, next: Option<u16>, event_index: bool);

    /// Logs what was written from `before` to `now`; `used`: the guest's address of the used ring, if that is logged.
    fn log(&self, log: &DirtyLog, used: Option<u64>, before: u16, now: u16);
}
