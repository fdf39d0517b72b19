//! Packets: frames and the contract with device queues, header views that check their bounds, checksums, hexadecimal
//! text.
//!
//! A view borrows a header of fixed size from the front of the data and gives what follows, so that reading past the
//! end is not a mistake that can be made. Nothing here knows a flow; `flow` builds on it to extract and to compose.

pub mod checksum;
pub mod ether;
pub mod frame;
pub mod hex;
pub mod ip;
pub mod l4;
pub mod merge;
pub mod murmur;
pub mod nd;
pub mod nsh;
pub mod offload;
pub mod queue;
pub mod segment;
mod view;
pub mod vnet;

pub use ether::{Arp, Ethernet, ethertype};
pub use ip::{Ipv4, Ipv6, ipproto};
pub use l4::{Icmp, Icmpv6, Igmp, Sctp, Tcp, Udp};
