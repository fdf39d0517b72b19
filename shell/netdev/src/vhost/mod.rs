//! `dpdkvhostuserclient` and `dpdkvhostuser`: ports of guests, by DPDK's vhost library.
//!
//! Keys, defaults and words are those of Open vSwitch (netdev-dpdk there): the guest says how many queues there are, and
//! which of them are on. A guest that comes with another number of queues, or has its memory on another node, makes the
//! port wish a restart; the socket stays registered meanwhile, and the guest connected.
//!
//! Where we make the socket, a file that is in the way is removed if it is a socket at which nobody listens any more;
//! anything else is left alone, and the port refused.
//!
//! Counters are written by the one worker that owns a queue, with plain stores, and added up when somebody asks.

mod counters;
mod path;
mod port;
mod queues;
mod report;

pub use port::Vhost;
