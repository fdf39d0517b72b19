//! Assembly: the database, the plan that it makes, its application to the running switch, and the status that goes back.
//!
//! | where | what |
//! |---|---|
//! | `run.rs` | an iteration of the main loop: everything below, in its order |
//! | `database.rs` | the replica of the database, and transactions to it |
//! | `reconfigure.rs`, `steps.rs` | the sequence from a change of the database to the running switch; the steps of its plan |
//! | `add_interface.rs`, `tunnels.rs`, `mtu.rs`, `port_sessions/` | an interface: opened, changed, removed |
//! | `configure_bridge.rs`, `mirrors.rs`, `controller_paths.rs`, `fail_open.rs`, `in_band.rs` | a bridge except its ports |
//! | `datapaths.rs`, `backer.rs`, `unbridged.rs` | datapaths: ports by number, threads, the published snapshot |
//! | `configure_limits.rs`, `polling.rs`, `handler_threads.rs`, `connections.rs`, `tracking.rs` | settings of datapaths and their threads |
//! | `uplinks/`, `spanning_tree/` | bonds and LACP; spanning trees |
//! | `qos/` | policers, shapers and queueing disciplines of ports |
//! | `publish.rs` | the snapshot for translations, built from bridges |
//! | `serve.rs`, `side_effects.rs` | requests of controllers (crate `openflow-service`); side effects of packets |
//! | `status.rs`, `wanted_row.rs`, `settings.rs`, `findings.rs` | state written to the database; settings without effect |
//! | `dpdk_start.rs`, `machine.rs`, `options.rs`, `switch.rs` | DPDK, the machine, the command line; ownership |
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
pub mod connections;
mod controller_paths;
pub mod database;
mod datapaths;
pub mod dpdk_start;
mod drop_counters;
mod fail_open;
mod findings;
mod fragments;
mod guest_log;
mod handler_threads;
mod identity;
mod in_band;
mod limits;
mod log;
mod logical_name;
mod lookups;
mod machine;
mod mirrors;
mod mtu;
mod next_snapshot;
pub mod options;
mod polling;
mod port_numbers;
mod port_sessions;
mod publish;
pub mod qos;
mod reconfigure;
mod refusal;
mod reserved_name;
mod run;
mod sampling;
mod serve;
mod settings;
mod side_effects;
mod snooping;
mod spanning_tree;
mod status;
mod steps;
pub mod switch;
mod timeouts;
mod tracking;
mod tunnels;
mod unbridged;
pub mod underlay;
pub mod uplinks;
mod wanted_row;

pub use backer::{AddError, Backer, PortInfo, Threads};
pub use datapaths::Datapaths;
pub use drop_counters::publish_drops;
pub use logical_name::logical_name;
pub use options::Options;
pub use publish::publish;
pub use run::expire;
pub use switch::Switch;
pub use tracking::{Flush, step};
pub use unbridged::UnbridgedDatapath;

#[cfg(test)]
mod tests;
