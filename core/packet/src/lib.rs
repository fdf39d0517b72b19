//! Packets: frames and the interface of device queues, header views with bounds checks, checksums, segmentation, hexadecimal text.
//!
//! A view borrows a header of fixed size from the front of the data and returns the rest, so reading past the end is impossible. This crate
//! has no flows: `flow` uses it to extract flows from packets and to compose packets.

pub mod checksum;
pub mod ether;
pub mod frame;
pub mod gso;
pub mod held_buffers;
pub mod hex;
pub mod ip;
pub mod l4;
pub mod lookup3;
pub mod merge;
pub mod murmur;
pub mod nd;
pub mod nsh;
pub mod offload;
pub mod queue;
pub mod rx_checksums;
pub mod segment;
mod view;
pub mod vnet;

pub use ether::{Arp, Ethernet, ethertype};
pub use ip::{Ipv4, Ipv6, dhcp_port, ipproto};
pub use l4::{Icmp, Icmpv6, Igmp, Sctp, Tcp, Udp};
