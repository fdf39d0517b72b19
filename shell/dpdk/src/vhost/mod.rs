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
//! features keeps those; a guest that reconnects is offered all.
//!
//! A packet that does not fit a packet buffer is put into memory that the library allocates for it alone, at most 64
//! KB: the length of a buffer chain would be up to the guest.
//!
//! # Threads
//!
//! The library has one thread, which calls [`callbacks`]. A guest's messages reach that thread through [`proxy`], on the
//! thread that serves all guests (`vhost::server`); [`message_checks`] refuses messages that would make the library harm
//! other guests. [`device_access`] keeps workers from using what the library frees.
//!
//! Sources: `rte_vhost.h`, the vhost-user specification, virtio 1.1.

mod bounds;
mod callbacks;
mod device_access;
mod from_guest;
mod kick;
mod message_checks;
mod port_state;
mod ports;
mod proxy;
mod socket;
mod to_guest;

pub use from_guest::FromGuest;
pub use socket::Socket;
pub use to_guest::{Sending, ToGuest};
