//! The OpenFlow service: a bridge at run time, which executes requests of its connections.
//!
//! `handle` executes one request (`requests.rs`); the other files implement requests by subject. What needs more than
//! the bridge (the datapath, its counters, devices) is provided by a [`Host`]. Errors are those of Open vSwitch in the
//! same case.
//!
//! | file | what |
//! |---|---|
//! | `bridge.rs`, `port.rs`, `port_bfd.rs`, `bridge_mirror.rs`, `controller_state.rs` | a bridge with its ports |
//! | `unfinished.rs` | work of several iterations: commits, dumps, barriers |
//! | `requests.rs`, `service.rs`, `host.rs` | a request, its execution, and its environment |
//! | `flow_mod.rs`, `groups.rs`, `table.rs`, `tlv.rs`, `port_mod.rs` | requests that change the bridge |
//! | `bundle.rs`, `steps.rs`, `commit.rs` | many requests as one |
//! | `features.rs`, `stats.rs`, `dump.rs`, `config.rs`, `role.rs` | requests that ask |
//! | `packet_out.rs`, `nicira.rs`, `barrier.rs`, `monitor.rs` | packets, extensions, barriers, flow monitors |
//! | `announce.rs`, `group_log.rs`, `not_built.rs` | messages to controllers and the log about changes |
//! | `reclaim.rs` | frees large objects without delaying the main loop |
//!
//! What takes long does not hold the main loop: echo requests are answered while a bundle commits, a dump or a barrier is on its
//! way (`ofconn`, `hold`); bundles are tried and flows selected by threads of their own; flows and statistics of ports are sent in
//! parts; requests are taken for 5 ms in a turn. Statistics and descriptions of groups, meters, queues and tables are one answer each.
//!
//! A thread of its own for this service needs first: that a [`Bridge`] be split, as the database's plan, status, control commands and
//! learning change the same object; and that four things of [`Host`] go by messages instead of calls: devices (`port_stats`,
//! `queue_counts`, `set_port_admin`), the list of changes and its version (`changed_by`, `next_version`), packets of
//! controllers, which see all that was changed before them, and forgetting connections. In dummy mode all of it has to stay in
//! one order (ADR 4).
//!
//! **Threads**: the main loop. **Order**: a request has had all its effects on the bridge's own state, and all messages
//! that it causes are queued, before its reply is queued. A barrier waits for the datapath as well.

mod announce;
mod barrier;
mod bridge;
mod bridge_mirror;
mod bundle;
mod commit;
mod config;
mod controller_state;
mod dump;
mod features;
mod flow_mod;
mod group_log;
mod groups;
mod host;
mod least;
mod monitor;
mod nicira;
mod not_built;
mod packet_out;
mod port;
mod port_bfd;
mod port_lacp;
mod port_mod;
mod port_qos;
mod ports;
pub mod reclaim;
mod requests;
mod role;
mod service;
mod stats;
mod steps;
mod table;
mod tlv;
mod unfinished;

pub use announce::announce;
pub use bridge::{Bridge, Common, Failed, Names};
pub use bridge_mirror::BridgeMirror;
pub use controller_state::ControllerState;
pub use features::port_message;
pub use host::{Host, QueueCounts, Resumed};
pub use least::Least;
pub use monitor::run as run_monitors;
pub use port::{Backing, BridgePort};
pub use port_bfd::PortBfd;
pub use port_lacp::{LacpFacts, PortLacp};
pub use port_qos::{Details, PortQos, PortQueue};
pub use ports::{Ports, Touched};
pub use requests::{go_on, handle};
pub use unfinished::{Barrier, Unfinished};

#[cfg(test)]
mod tests;
