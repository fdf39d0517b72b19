//! `dpdkvhostuserclient` and `dpdkvhostuser`: ports of guests, served by crate `vhost` or by DPDK's vhost library.
//!
//! Keys, defaults and texts are those of Open vSwitch (its netdev-dpdk). The guest determines the number of queues and which of them
//! are enabled. If a guest has another number of queues than its predecessor, or memory on another NUMA
//! node, the port requests a restart; during the restart the socket stays registered and the guest connected.
//!
//! If the switch creates the socket, an existing socket file without a listener is removed. If any other file exists, it is
//! kept, and the port is refused.
//!
//! Counters are written by the worker that owns a queue, with plain stores, and summed when they are read.

mod back_end;
mod counters;
mod path;
mod port;
mod queues;
mod report;

pub use port::Vhost;
