//! The switch as a whole: reads the database, plans the differences to the running switch, applies them, and writes the resulting status to the
//! database.
//!
//! | where | what |
//! |---|---|
//! | `run.rs` | one turn of the main loop: calls everything below in order |
//! | `database.rs` | the replica of the database, and transactions to it |
//! | `reconfigure.rs`, `steps.rs` | the order in which a change of the database is applied; the steps of the plan |
//! | `add_interface.rs`, `tunnels.rs`, `tunnel_index.rs`, `mtu.rs`, `port_sessions/` | opens, changes and removes interfaces |
//! | `configure_bridge.rs`, `mirrors.rs`, `controller_paths.rs`, `fail_open.rs`, `in_band.rs` | configures a bridge, without its ports |
//! | `datapaths.rs`, `backer.rs`, `unbridged.rs` | datapaths: ports by number, threads, the published snapshot |
//! | `configure_limits.rs`, `polling.rs`, `plan_handlers.rs`, `tracked_connections.rs`, `tracking.rs` | settings of datapaths and their threads |
//! | `link_aggregation/`, `spanning_tree/` | bonds and LACP; spanning trees |
//! | `qos/` | policers, shapers and queueing disciplines of ports |
//! | `underlay/`, `snooping.rs`, `sampling.rs` | routes and neighbours for tunnels; multicast snooping; sFlow, IPFIX and NetFlow |
//! | `publish.rs` | builds the snapshot for translations from bridges |
//! | `openflow_requests.rs`, `side_effects.rs` | serves requests of controllers (crate `openflow-service`); carries out side effects of packets |
//! | `status.rs`, `row_values.rs`, `port_position.rs` | writes state to the database, counters of ports in several turns |
//! | `settings.rs`, `findings.rs` | reports settings without effect |
//! | `dpdk_start.rs`, `machine.rs`, `options.rs`, `switch.rs` | DPDK, the machine, the command line; the object that owns everything |
//!
//! The crate `poll-threads` forwards packets, `translation` serves upcalls and revalidates megaflows, `control-commands` serves
//! the control socket.
//!
//! **Thread**: the main loop.

mod add_interface;
mod backer;
pub mod capabilities;
mod configure_bridge;
mod configure_limits;
mod controller_paths;
mod ct_timeout_policies;
pub mod database;
mod datapath_port_numbers;
mod datapaths;
pub mod dpdk_start;
mod drop_counters;
mod fail_open;
mod findings;
mod fragments;
mod guest_log;
mod identity;
mod in_band;
mod limits;
pub mod link_aggregation;
mod log;
mod logical_name;
mod lookups;
mod machine;
mod mirrors;
mod mtu;
mod openflow_requests;
pub mod options;
mod plan_handlers;
mod polling;
mod port_position;
mod port_sessions;
mod publish;
pub mod qos;
mod reconfigure;
mod refusal;
mod reserved_name;
mod row_values;
mod run;
mod sampling;
mod settings;
mod side_effects;
mod snapshot_builder;
mod snooping;
mod spanning_tree;
mod status;
mod steps;
pub mod switch;
pub mod tracked_connections;
mod tracking;
mod tunnel_index;
mod tunnels;
mod unbridged;
pub mod underlay;

pub use backer::{AddError, Backer, PortInfo, Threads};
pub use datapaths::Datapaths;
pub use drop_counters::publish_coverage_counters;
pub use logical_name::logical_name;
pub use options::Options;
pub use port_position::PortPosition;
pub use publish::publish;
pub use run::expire;
pub use switch::Switch;
pub use tracking::{ConnectionFlush, step};
pub use unbridged::UnbridgedDatapath;

#[cfg(test)]
mod tests;
