//! The OpenFlow service: a bridge at run time, which executes requests of its connections.
//!
//! `handle` executes one request (`requests.rs`); the other files implement requests by subject. What needs more than
//! the bridge (the datapath, its counters, devices) is provided by a [`Host`]. Errors are those of Open vSwitch in the
//! same case.
//!
//! | file | what |
//! |---|---|
//! | `bridge.rs`, `port.rs`, `port_session.rs`, `bridge_mirror.rs`, `controller_state.rs`, `removed_ports.rs` | a bridge with its ports |
//! | `in_band.rs` | the flows of in-band control |
//! | `unfinished.rs` | work of several iterations: commits, dumps, barriers |
//! | `requests.rs`, `service.rs`, `host.rs` | a request, its execution, and its environment |
//! | `flow_mod.rs`, `groups.rs`, `table.rs`, `tlv.rs`, `port_mod.rs` | requests that change the bridge |
//! | `bundle.rs`, `bundle_messages.rs`, `commit.rs` | many requests as one |
//! | `features.rs`, `stats.rs`, `dump.rs`, `config.rs`, `role.rs` | requests that ask |
//! | `packet_out.rs`, `nicira.rs`, `barrier.rs`, `monitor.rs` | packets, extensions, barriers, flow monitors |
//! | `announce.rs`, `group_log.rs` | messages to controllers and the log about changes |
//! | `reclaim.rs` | frees large objects without delaying the main loop |
//!
//! Long work does not hold up the main loop: sockets have a thread of their own, which answers probes, decodes and encodes, and makes
//! the parts of a dump of flows (`ofconn`; docs/adr/0037); bundles are tried and flows selected by threads of their own; statistics of
//! ports are asked for in parts; requests are taken for 5 ms in a turn. Statistics and descriptions of groups, meters, queues and
//! tables are collected by the main loop at once.
//!
//! Requests are executed in the main loop because the database's plan, status, control commands and learning change the same
//! [`Bridge`], and packets of controllers see all that was changed before them.
//!
//! **Threads**: the main loop. **Order**: a request has had all its effects on the bridge's own state, and all messages
//! that it causes are queued, before its reply is queued. A barrier waits for the datapath as well.

mod announce;
mod barrier;
mod bridge;
mod bridge_mirror;
mod bundle;
mod bundle_messages;
mod commit;
mod config;
mod controller_state;
mod dump;
mod features;
mod flow_mod;
mod group_log;
mod groups;
mod host;
mod in_band;
mod monitor;
mod nicira;
mod packet_out;
mod port;
mod port_lacp;
mod port_mod;
mod port_qos;
mod port_session;
mod ports;
pub mod reclaim;
mod removed_ports;
mod requests;
mod role;
mod service;
mod sorted_values;
mod stats;
mod table;
mod tlv;
mod unfinished;

pub use announce::announce;
pub use bridge::{Bridge, Common, Failed, Names};
pub use bridge_mirror::BridgeMirror;
pub use controller_state::ControllerState;
pub use features::{current_mbps, port_message};
pub use host::{Host, QueueCounts, Resumed};
pub use in_band::{InBand, InBandInput};
pub use monitor::run as run_monitors;
pub use port::{Backing, BridgePort};
pub use port_lacp::{LacpFacts, PortLacp};
pub use port_qos::{Details, PortQos, PortQueue};
pub use port_session::{PortBfd, PortCfm};
pub use ports::{Ports, Touched};
pub use removed_ports::{RemovedPort, RemovedPorts};
pub use requests::{go_on, handle};
pub use sorted_values::SortedValues;
pub use unfinished::{Barrier, Unfinished};

#[cfg(test)]
mod tests;
