//! The vhost-user back-end: ports to virtual machines and containers, called guests.
//!
//! A [`Socket`] is a path at which one guest connects. Either the guest creates the socket and the switch connects to it
//! (again whenever the guest has restarted), or the switch creates the socket. While a guest is connected, [`FromGuest`] receives
//! packets from the guest's rings and [`ToGuest`] sends packets to them. This back-end needs neither DPDK nor huge pages.
//!
//! - [`server`]: the thread that serves the sockets of all guests, also of ports whose rings DPDK's library serves (crate `dpdk`);
//! - [`message`], [`rules`], [`file_descriptors`], [`memory_table`]: messages of a front-end and their checks, for both back-ends;
//! - `device`: the state of a guest, the execution of its messages, and the queues that workers use;
//! - `memory`, `copy`: guest memory, and the only functions that read and write it;
//! - `address_space`, `iotlb`: translation of the addresses in descriptors, for guests with and without an IOMMU;
//! - `dirty`: the log of written pages, for live migration;
//! - `ring`: receives from and fills rings during a burst;
//! - [`blocked_writes`], [`lost_memory`]: protection against guests that block a worker or truncate their memory.
//!
//! Packet headers are copied out of guest memory before they are parsed. A guest that violates the protocol loses its connection; other
//! ports are not affected. See docs/adr/0031.
//!
//! Sources: vhost-user specification (QEMU), virtio 1.2.

mod address_space;
pub mod blocked_writes;
pub mod bounds;
mod copy;
mod device;
mod dirty;
pub mod feature;
pub mod file_descriptors;
pub mod fuzz_rings;
mod guest;
mod iotlb;
pub mod log;
pub mod lost_memory;
mod memory;
pub mod memory_table;
pub mod message;
mod notify;
pub mod path;
mod port_state;
mod ring;
pub mod rules;
pub mod server;

pub use device::bench_driver::BenchDriver;
pub use device::from_guest::FromGuest;
pub use device::socket::Socket;
pub use device::to_guest::{Packets, Sending, ToGuest};
pub use guest::{Guest, Received};
pub use notify::Notify;
pub use path::Role;
pub use port_state::PortState;
