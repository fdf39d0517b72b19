//! Ports of guests that DPDK's vhost library serves.
//!
//! A [`Socket`] is a path at which one guest connects. Either the guest creates the socket and the switch connects to
//! it (again whenever the guest has restarted), or the switch creates the socket. While a guest is connected, [`FromGuest`] receives packets
//! from its rings and [`ToGuest`] sends packets to them.
//!
//! The library copies packets between guest memory and packet buffers. This module does not read guest memory, so a guest
//! cannot change a packet after the packet was received.
//!
//! # What is negotiated
//!
//! Checksums and TCP segmentation, in both directions, as far as the guest's driver supports them: the guest may leave
//! both to the switch, and the switch leaves both to the guest if the guest's feature bits allow that. So TCP is forwarded in
//! segments of up to 64 KB. This needs no setting and no restart of the guest: a guest that connected with fewer
//! features keeps these features; a guest that connects again is offered all features.
//!
//! If a packet does not fit a packet buffer, the library allocates memory for this packet alone, at most 64
//! KB. (With chains of buffers, the guest could determine the number of buffers.)
//!
//! # Threads
//!
//! The library has one thread, which calls [`callbacks`]. A guest's messages are passed to that thread through [`proxy`], by the
//! thread that serves all guests (`vhost::server`). [`message_checks`] refuses messages that would make the library harm
//! other guests. [`device_access`] prevents workers from using memory that the library frees.
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
