//! Guests by vhost-user.
//!
//! A [`Socket`] is a path at which one guest connects. Either the guest creates the socket and the switch connects to it
//! (again whenever the guest comes back), or the switch creates it. While a guest is connected, [`FromGuest`] reads its
//! rings and [`ToGuest`] fills them. This needs neither DPDK nor huge pages.
//!
//! - [`server`]: the thread that owns the sockets of all guests, also of those that DPDK's library serves (crate `dpdk`);
//! - [`message`], [`rules`], [`descriptors`], [`memory_table`]: messages of a front-end and their checks, for both back-ends;
//! - `device`: the state of a guest, its messages, and the queues of workers;
//! - `memory`, `copy`: guest memory, and the only way to read and write it;
//! - `dirty`: the log of written pages, for live migration;
//! - `ring`: reads and fills rings during a burst;
//! - [`blocked_writes`], [`lost_memory`]: guests that block a worker, or truncate their memory.
//!
//! Packets are copied out of guest memory before they are parsed. A guest that breaks the rules loses its connection; other ports are not
//! affected. See docs/adr/0031.
//!
//! Sources: vhost-user specification (QEMU), virtio 1.2.

pub mod blocked_writes;
pub mod bounds;
mod copy;
pub mod descriptors;
mod device;
mod dirty;
pub mod feature;
mod guest;
pub mod log;
pub mod lost_memory;
mod memory;
pub mod memory_table;
pub mod message;
mod notify;
pub mod path;
mod port_state;
pub mod probe;
mod ring;
pub mod rules;
pub mod server;

pub use device::driver::Driver;
pub use device::from_guest::FromGuest;
pub use device::socket::Socket;
pub use device::to_guest::{Packets, Sending, ToGuest};
pub use guest::{Guest, Received};
pub use notify::Notify;
pub use path::Role;
pub use port_state::PortState;
