//! `dpdkvhostuserclient` and `dpdkvhostuser`: ports of guests, served by the switch itself or by DPDK's vhost library.
//!
//! Keys, defaults and texts are those of Open vSwitch (its netdev-dpdk). The guest determines how many queues there
//! are and which are enabled. If a guest has another number of queues than its predecessor, or memory on another NUMA
//! node, the port requests a restart; meanwhile the socket stays registered and the guest connected.
//!
//! If the switch creates the socket, an existing socket file without listener is removed; any other file is left
//! alone, and the port is refused.
//!
//! Counters are written by the worker that owns a queue, with plain stores, and summed up when they are read.

mod back_end;
mod counters;
mod path;
mod port;
mod queues;
mod report;

pub use port::Vhost;
