//! Rings of a guest, as one worker uses them during a burst.
//!
//! - [`layout`]: what a burst needs to know about the memory format; bursts are compiled for each format;
//! - [`access`], [`packed`]: the words of a split and of a packed ring, by atomic loads and stores;
//! - [`descriptor`]: one descriptor;
//! - [`inflight`]: where rings are, for a switch that takes the place of one that was killed;
//! - [`chain`]: descriptors become parts of guest memory;
//! - [`split`]: the state of a ring, and notifications; [`any`]: a ring of either format;
//! - [`publish_used`]: when the guest sees the buffers that it gets back;
//! - [`receive`]: packets that the guest sends; [`fill`]: packets that it receives;
//! - [`loans`]: long packets, of which only the beginning is copied when they are received.
//!
//! The guest can write anything into a ring at any time. Each index, descriptor and ring entry is read once, and the value that was
//! read is checked before it is used. A value that the specification does not allow is an [`InvalidRing`]: it ends the connection of
//! that guest.
//!
//! Sources: virtio 1.2, 2.7 (split virtqueues), 2.8 (packed virtqueues), 5.1.6 (network device operation).

pub(crate) mod access;
pub(crate) mod any;
pub(crate) mod chain;
pub(crate) mod descriptor;
pub(crate) mod fill;
pub(crate) mod inflight;
#[cfg(test)]
mod kill_tests;
mod layout;
pub(crate) mod loans;
mod packed;
mod publish_used;
pub(crate) mod receive;
pub(crate) mod split;
#[cfg(test)]
mod tests;

use std::fmt;

/// Why a ring is invalid: values that no driver may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InvalidRing {
    /// More descriptors are offered than the ring has.
    Index,
    /// A descriptor beyond the ring.
    Head,
    /// A chain with more descriptors than the ring, or with a loop.
    Chain,
    /// A buffer outside the guest's memory.
    Address,
    /// A buffer of the wrong direction.
    Direction,
    /// An indirect table that was not negotiated, in another one, or of a wrong size.
    Indirect,
    /// A packet without a whole header.
    Header,
    /// The inflight area contains values that no switch can have written.
    Inflight,
}

impl fmt::Display for InvalidRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            InvalidRing::Index => "more descriptors are offered than the ring has",
            InvalidRing::Head => "a descriptor is beyond the ring",
            InvalidRing::Chain => "a chain has more descriptors than the ring",
            InvalidRing::Address => "a buffer is outside the guest's memory",
            InvalidRing::Direction => "a buffer has the wrong direction",
            InvalidRing::Indirect => "an indirect table is invalid",
            InvalidRing::Header => "a packet is shorter than its header",
            InvalidRing::Inflight => "its inflight area is invalid",
        })
    }
}
