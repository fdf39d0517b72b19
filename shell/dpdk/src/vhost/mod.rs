//! Guests by vhost-user: DPDK's vhost library, used as a library.
//!
//! A [`Socket`] is a path at which one guest is met: made by the guest and connected to by us (and again whenever the guest
//! comes back), or made by us. While a guest is there its rings are read by [`FromGuest`] and filled by [`ToGuest`].
//!
//! The library copies packets between guest memory and packet buffers. Nothing here looks at guest memory, so what a
//! guest changes after it sent it changes nothing.
//!
//! # What is negotiated
//!
//! Checksums and the segmentation of TCP, both ways, as far as the guest's driver can: it may leave both to us, and is
//! left both where its feature bits allow. So TCP crosses in pieces of 64 KB. No setting is needed for that, and no restart
//! of a guest: one that came before with fewer features keeps those, one that comes anew is offered all.
//!
//! A piece that does not fit a packet buffer comes in memory that the library takes for it alone, at most 64 KB: chains
//! of buffers would be as long as a guest likes to make them.
//!
//! # Threads
//!
//! The library has one of its own, which calls [`callbacks`]; a guest's messages reach it through [`front`], a thread of
//! ours, and [`vet`] says which never do: those it would act on to everybody's harm. [`gate`] says how a worker is kept from
//! using what the library frees, [`descriptors`] and [`guard`] how a peer is kept from making us wait, and [`lost_memory`]
//! what becomes of a guest that takes its memory away.
//!
//! Sources: `rte_vhost.h`, the vhost-user specification, virtio 1.1.

mod callbacks;
mod descriptors;
mod from_guest;
mod front;
mod gate;
mod guard;
mod kick;
mod link;
mod lost_memory;
mod memory_table;
mod notify;
mod rules;
mod socket;
mod to_guest;
mod vet;

pub use from_guest::{FromGuest, Received};
pub use link::MAX_PAIRS;
pub use notify::Notify;
pub use socket::{Guest, Role, Socket, SocketError};
pub use to_guest::{Sending, ToGuest};

/// The library moves at most so many packets in a call, and does not say so.
const BURST: usize = 32;

/// The feature bits that matter here (virtio 1.1, 5.1.3).
mod feature {
    pub const GUEST_CSUM: u64 = 1 << 1;
    pub const GUEST_TSO4: u64 = 1 << 7;
    pub const GUEST_TSO6: u64 = 1 << 8;
    pub const HOST_UFO: u64 = 1 << 14;
    pub const MQ: u64 = 1 << 22;
    /// Of vhost: writes to guest memory are noted, for its migration.
    pub const LOG_ALL: u64 = 1 << 26;
    pub const RING_PACKED: u64 = 1 << 34;
}
