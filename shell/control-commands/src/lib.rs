//! The control commands of the switch (`ovs-appctl`): arguments, effects and text of each.
//!
//! Before a command is executed, `ctl::check` checks its name and its number of arguments. `version`, `list-commands` and
//! `set-options` belong to the control socket. Scripts compare the text of replies, so commands that Open vSwitch 3.7 has
//! give its text byte for byte.
//!
//! `commands.rs` receives commands, `execute.rs` dispatches them, and the other files implement them by subject.
//!
//! **Thread**: the main loop. In dummy mode, all packets that arrived before a command have been forwarded when the command runs.

mod actions_impl;
mod answer;
mod bfd;
mod bridge;
mod caches;
mod capture;
mod cfm;
mod commands;
mod counters;
mod detrace;
mod dpctl;
mod dpctl_call;
mod dpctl_ct;
mod dpctl_ct_many;
mod dpctl_flows;
mod dpctl_ipf;
mod dpctl_ports;
mod dpdk;
mod dpif;
mod drops;
mod dummy;
mod execute;
mod fdb;
mod features;
mod flow_file;
mod forced_sessions;
mod ingress_bridge;
mod last_drop;
mod lasting_requests;
mod link_aggregation;
mod lldp;
mod mdb;
mod names;
mod neighbours;
mod packet_accounting;
mod perf_log;
mod pmd;
mod pmd_impl;
mod pmd_perf;
mod pmd_state;
mod pmd_txq;
mod qos;
mod route;
mod rx_pool;
mod session_lists;
mod shadow;
mod spanning_tree;
mod subtable_lookup;
mod time;
mod top;
mod trace;
mod trace_args;
mod trace_run;
mod tunnels;
mod upcall;
mod verify;
mod why;

pub use commands::Commands;
pub use trace::read_only as trace;
pub use why::explain_flow;
