//! Assembly: owns everything else and applies plans.
//!
//! A turn of the main loop (`run`) reads the database (`database`), brings the switch to what it wants (`reconfigure`,
//! `add_interface`, `configure_bridge`), serves OpenFlow (`openflow`) and the control socket (`commands`), publishes
//! what changed for those who translate (`publish`, `control`) and mends megaflows (`revalidate`), and writes back what
//! the database shows of it (`status`). Packets are the workers' matter (`workers`), misses are answered in `handler`,
//! by threads of their own (`handlers`). Protocols that the switch speaks itself (`bfd`) have a thread for their clocks
//! (`timers`).

mod add_interface;
pub mod backer;
mod background;
mod bfd;
pub mod bridge;
pub mod changes;
pub mod commands;
mod configure_bridge;
mod connections;
pub mod control;
mod controller_paths;
mod cpus;
mod cycles;
pub mod database;
mod deeds;
pub mod dpdk_start;
mod fail_open;
mod flow_log;
mod group_log;
mod hand_made;
pub mod handler;
mod handlers;
mod identity;
mod inject;
mod limits;
mod lookups;
pub mod macs;
mod mirrors;
mod mtu;
pub mod openflow;
pub mod options;
mod owner;
mod packet_in;
pub mod patch;
mod polling;
pub mod port;
mod publish;
mod reconfigure;
pub mod revalidate;
mod run;
mod serve;
mod settings;
mod shadow;
mod status;
pub mod switch;
mod timers;
mod tunnels;
pub mod workers;

pub use options::Options;
pub use switch::Switch;
