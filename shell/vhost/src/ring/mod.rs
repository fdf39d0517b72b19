//! Rings of a guest, as one worker uses them during a burst.
//!
//! - [`layout`]: the interface of the two memory formats; the code of a burst is compiled once for each format;
//! - [`split`], [`packed`]: the words of a split and of a packed ring, accessed by atomic loads and stores;
//! - [`descriptor`]: one descriptor;
//! - [`inflight`]: the inflight area, from which a restarted switch learns the positions of rings;
//! - [`chain`]: translates chains of descriptors to parts of guest memory;
//! - [`state`]: the state of a ring of either format, and its notifications; [`any`]: an enum of both formats;
//! - [`publish_used`]: decides when the guest sees used buffers;
//! - [`receive`]: packets that the guest sends; [`fill`]: packets that the guest receives;
//! - [`tail_leases`]: long packets; only their beginning is copied when they are received.
//!
//! The guest can write anything into a ring at any time. Each index, descriptor and ring entry is read once, and the value that was
//! read is checked before it is used. A value that the specification does not allow is a [`RingError`], for which the guest loses its
//! connection.
//!
//! Addresses in descriptors are translated by the ring's [address space](crate::address_space).
//!
//! Sources: virtio 1.2, 2.7 (split virtqueues), 2.8 (packed virtqueues), 5.1.6 (network device operation).

pub(crate) mod any;
pub(crate) mod chain;
pub(crate) mod descriptor;
pub(crate) mod fill;
pub(crate) mod inflight;
#[cfg(test)]
mod kill_tests;
mod layout;
mod packed;
mod publish_used;
pub(crate) mod receive;
pub(crate) mod split;
pub(crate) mod state;
pub(crate) mod tail_leases;
#[cfg(test)]
mod tests;

use std::fmt;

/// Why a ring is not read: the guest wrote values that the specification does not allow, or a translation is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RingError {
    /// The index makes more descriptors available than the ring has.
    Index,
    /// The number of a descriptor is beyond the end of the ring.
    Head,
    /// A chain with more descriptors than the ring, or with a loop.
    Chain,
    /// A buffer outside the guest's memory.
    Address,
    /// A buffer has the wrong direction: the guest marked it as writable for the device although it contains a packet, or vice versa.
    Direction,
    /// An indirect table was not negotiated, is inside another indirect table, or has an invalid size.
    Indirect,
    /// A packet is shorter than the virtio header.
    Header,
    /// The inflight area contains values that no back-end can have written.
    Inflight,
    /// The ring of a guest with an IOMMU is not contiguous in the guest's memory, or not aligned.
    Scattered,
    /// The IOMMU does not permit an access that a descriptor requires.
    Denied,
    /// An address is not in the IOTLB. The ring is valid: it continues when the translation has arrived.
    Untranslated,
}

impl fmt::Display for RingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RingError::Index => "more descriptors are offered than the ring has",
            RingError::Head => "a descriptor is beyond the ring",
            RingError::Chain => "a chain has more descriptors than the ring",
            RingError::Address => "a buffer is outside the guest's memory",
            RingError::Direction => "a buffer has the wrong direction",
            RingError::Indirect => "an indirect table is invalid",
            RingError::Header => "a packet is shorter than its header",
            RingError::Inflight => "its inflight area is invalid",
            RingError::Scattered => "its memory is not contiguous or not aligned",
            RingError::Denied => "the IOMMU does not permit an access that it requires",
            RingError::Untranslated => "an address is not translated",
        })
    }
}
