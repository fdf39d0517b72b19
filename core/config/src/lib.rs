//! The typed desired state that database rows describe, and the plan to reach it.
//!
//! `desired` reads the rows and converts them to plain data; `follow` updates the data from rows that change. `plan`
//! compares two such states and returns the steps between them in a safe order. This crate does not access devices:
//! `switch` executes the steps.

pub mod bridge;
pub mod check;
pub mod controller;
pub mod datapath;
pub mod desired;
pub mod follow;
pub mod interface;
pub mod link_aggregation;
pub mod mirror;
pub mod plan;
pub mod port;
mod port_configs;
pub mod qos;
pub mod row;
pub mod sampling;
pub mod shared_map;
pub mod spanning_tree;
pub mod ssl;

pub use bridge::{AutoAttachConfig, BridgeConfig, FailMode};
pub use controller::ControllerConfig;
pub use datapath::DatapathConfig;
pub use desired::Desired;
pub use follow::{DesiredTracker, TouchedByDatabase};
pub use interface::InterfaceConfig;
pub use link_aggregation::{LacpConfig, LacpLink};
pub use mirror::MirrorConfig;
pub use plan::{Step, plan};
pub use port::PortConfig;
pub use port_configs::PortConfigs;
pub use row::Row;
pub use sampling::{IpfixConfig, NetflowConfig, SamplingConfig, SflowConfig};
pub use shared_map::SharedMap;
pub use spanning_tree::{TreeConfig, TreePortConfig, TreePortConfigs};
pub use ssl::SslConfig;
