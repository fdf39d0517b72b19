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
//! Checksums, not segmentation: a guest may leave a TCP or UDP checksum to us (it is carried in `Offload::csum`), and is
//! left one where its feature bits allow. It is not offered to send packets of 64 KB: they would need buffers of that
//! size on receive; one that sends such a note all the same has its packet dropped. It is not sent such packets either:
//! the library would write a pseudo header's sum without the length, and a guest that forwards them would spoil them.
//!
//! # Threads
//!
//! The library has two of its own. They call [`callbacks`]; [`gate`] says how a worker is kept from using what they
//! free, [`guard`] how a peer is kept from stopping them, and [`lost_memory`] what
//! becomes of a guest that takes its memory away.
//!
//! Sources: `rte_vhost.h`, the vhost-user specification, virtio 1.1.

mod callbacks;
mod from_guest;
mod gate;
mod guard;
mod link;
mod lost_memory;
mod notify;
mod socket;
mod to_guest;

pub use from_guest::{FromGuest, Received};
pub use link::MAX_PAIRS;
pub use notify::Notify;
pub use socket::{Guest, Role, Socket, SocketError};
pub use to_guest::{Sending, ToGuest};

/// The feature bits that matter here (virtio 1.1, 5.1.3).
mod feature {
    pub const GUEST_CSUM: u64 = 1 << 1;
    pub const HOST_TSO4: u64 = 1 << 11;
    pub const HOST_TSO6: u64 = 1 << 12;
    pub const HOST_UFO: u64 = 1 << 14;
}
