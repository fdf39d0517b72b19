//! The OpenFlow service: a bridge at run time, which executes requests of its connections.
//!
//! `handle` executes one request (`requests.rs`); the other files implement requests by subject. A [`SwitchAccess`] provides access to the
//! datapath, its counters and devices, which are not part of the bridge. Error codes are those of Open vSwitch in the same case.
//!
//! | file | what |
//! |---|---|
//! | `bridge.rs`, `port.rs`, `port_session.rs`, `bridge_mirror.rs`, `controller_state.rs`, `removed_ports.rs` | a bridge with its ports |
//! | `ports.rs`, `port_lacp.rs`, `port_qos.rs`, `sorted_values.rs` | ports and the record of their changes; parts of a port's state; sorted sets |
//! | `in_band.rs` | the flows of in-band control |
//! | `unfinished.rs` | work that takes several turns: commits, dumps, barriers |
//! | `requests.rs`, `request_context.rs`, `switch_access.rs` | a request, its execution, and its environment |
//! | `flow_mod.rs`, `groups.rs`, `table.rs`, `tlv.rs`, `port_mod.rs` | requests that change the bridge |
//! | `bundle.rs`, `bundle_messages.rs`, `bundle_totals.rs`, `bundle_commit.rs` | bundles: many requests that are executed together |
//! | `features.rs`, `stats.rs`, `dump.rs`, `long_list.rs`, `config.rs`, `role.rs` | queries, long replies, settings of a connection, roles |
//! | `packet_out.rs`, `nicira.rs`, `barrier.rs`, `monitor.rs` | packets, extensions, barriers, flow monitors |
//! | `announce.rs`, `group_log.rs` | messages to controllers and the log about changes |
//! | `reclaim.rs` | frees large objects without delaying the main loop |
//!
//! Long work does not delay the main loop. The thread `ofconn` serves the sockets: it answers echo requests, decodes and encodes, and
//! makes the parts of long lists of flows, groups and meters (docs/adr/0037). Background threads try bundles and select the flows of a
//! dump. The main loop reads the statistics of many ports in several turns, and executes requests for 5 ms per turn. It collects
//! statistics of queues and tables at once.
//!
//! The main loop executes the requests because database changes, status, control commands and learning change the same
//! [`Bridge`], and because a packet-out must see all changes that were requested before it.
//!
//! **Threads**: the main loop. **Order**: when the reply to a request is queued, all effects of the request on the bridge's own state have
//! happened, and all messages that it causes are queued. A barrier waits for the datapath as well.

mod announce;
mod barrier;
mod bridge;
mod bridge_mirror;
mod bundle;
mod bundle_commit;
mod bundle_messages;
mod bundle_totals;
mod config;
mod controller_state;
mod dump;
mod features;
mod flow_mod;
mod group_log;
mod groups;
mod in_band;
mod long_list;
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
mod request_context;
mod requests;
mod role;
mod sorted_values;
mod stats;
mod switch_access;
mod table;
mod tlv;
mod unfinished;

pub use announce::{announce, flush};
pub use bridge::{AllPortsState, Bridge, FailedInterface, Names};
pub use bridge_mirror::BridgeMirror;
pub use controller_state::ControllerState;
pub use features::{current_mbps, port_description};
pub use in_band::{InBand, InBandInput};
pub use monitor::run as run_monitors;
pub use port::{Backing, BridgePort};
pub use port_lacp::{LacpFacts, PortLacp};
pub use port_qos::{AppliedQos, Details, PortQos, PortQueue};
pub use port_session::{PortBfd, PortCfm, PortLldp, TrunkChange};
pub use ports::{Ports, TouchedPorts};
pub use removed_ports::{RemovedPort, RemovedPorts};
pub use requests::{continue_work, handle};
pub use sorted_values::SortedValues;
pub use switch_access::{QueueCounts, ResumedPacket, SwitchAccess};
pub use unfinished::{Barrier, Unfinished};

#[cfg(test)]
mod bundle_tests;
#[cfg(test)]
mod tests;
