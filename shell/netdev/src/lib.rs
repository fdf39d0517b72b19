//! Ports: kernel devices by AF_PACKET or AF_XDP, tap and internal devices, vhost-user, DPDK, dummies. Also the kernel's qdiscs, routes and
//! links by netlink.
//!
//! [`open::Netdevs`] opens a device by name and type. The main thread queries and configures the device through
//! [`device::Netdev`]; workers own its queues, which implement the traits of `packet::queue`. [`rtnl::LinkMonitor`]
//! reports changes that other programs make to kernel devices. Nothing here blocks for longer than the kernel needs to create
//! or delete a device.
//!
//! `linux` is the only module with unsafe code.
#![deny(unsafe_code)]

mod account;
mod afxdp;
mod charged;
pub mod deletions;
pub mod device;
mod dpdk;
pub mod dummy;
pub mod error;
mod ethtool;
mod kernel;
mod kernel_port_state;
#[allow(unsafe_code)]
mod linux;
pub mod open;
mod posted;
pub mod qdisc;
mod received;
pub mod routes;
pub mod rtnl;
pub mod rx_buffers;
pub mod shared_member;
pub mod shared_rx;
mod socket_limit;
pub mod stats;
mod system;
mod tap;
mod vhost;

pub use ::vhost::log as guest_log;
pub use linux::pages::{advise_huge, collect_freed_memory, return_freed_memory};
