//! Guests by vhost-user: DPDK's vhost library, used as a library.
//!
//! A [`Socket`] is a path at which one guest connects. Either the guest creates the socket and the switch connects to
//! it (again whenever the guest comes back), or the switch creates it. While a guest is connected, [`FromGuest`] reads
//! its rings and [`ToGuest`] fills them.
//!
//! The library copies packets between guest memory and packet buffers. Nothing here reads guest memory, so a guest
//! cannot change a packet after it was received.
//!
//! # What is negotiated
//!
//! Checksums and TCP segmentation, in both directions, as far as the guest's driver supports them: the guest may leave
//! both to the switch, and the switch leaves both to the guest where its feature bits allow. So TCP crosses in
//! segments of up to 64 KB. This needs no setting and no restart of the guest: a guest that connected with fewer
//! features keeps those, one that connects anew is offered all.
//!
//! A packet that does not fit a packet buffer is put into memory that the library allocates for it alone, at most 64
//! KB: the length of a buffer chain would be up to the guest.
//!
//! # Threads
//!
//! The library has one thread, which calls [`callbacks`]. A guest's messages reach that thread through [`proxy`], a
//! thread of the switch; [`message_checks`] refuses messages that would make the library harm other guests. [`device_access`] keeps
//! workers from using what the library frees, [`descriptors`] and [`blocked_writes`] keep a peer from blocking the switch, and
//! [`lost_memory`] handles guests that truncate their memory.
//!
//! Sources: `rte_vhost.h`, the vhost-user specification, virtio 1.1.

mod blocked_writes;
mod callbacks;
mod descriptors;
mod device_access;
mod from_guest;
mod kick;
mod lost_memory;
mod memory_table;
mod message_checks;
mod notify;
mod port_state;
mod proxy;
mod rules;
mod socket;
mod to_guest;

pub use from_guest::{FromGuest, Received};
pub use notify::Notify;
pub use port_state::MAX_PAIRS;
pub use socket::{Guest, Role, Socket, SocketError};
pub use to_guest::{Sending, ToGuest};

/// Packets that the library moves at most in one call (a constant in its source, not in its interface).
const BURST: usize = 32;

/// The feature bits that the switch reads (virtio 1.1, 5.1.3).
mod feature {
    pub const GUEST_CSUM: u64 = 1 << 1;
    pub const GUEST_TSO4: u64 = 1 << 7;
    pub const GUEST_TSO6: u64 = 1 << 8;
    pub const HOST_UFO: u64 = 1 << 14;
    pub const MQ: u64 = 1 << 22;
    /// `VHOST_F_LOG_ALL`: writes to guest memory are logged, for live migration.
    pub const LOG_ALL: u64 = 1 << 26;
    pub const RING_PACKED: u64 = 1 << 34;
}
