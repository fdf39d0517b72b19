//! The typed desired state that database rows describe, and the plan to reach it.
//!
//! `desired` reads the rows once and converts them to plain data. `plan` compares two such states and returns the
//! steps in a safe order. Nothing here touches a device: `switch` executes the steps.

pub mod bridge;
pub mod controller;
pub mod datapath;
pub mod desired;
pub mod interface;
pub mod mirror;
pub mod not_built;
pub mod plan;
pub mod port;
pub mod row;
pub mod settings;
pub mod ssl;

pub use bridge::{BridgeConfig, FailMode};
pub use controller::ControllerConfig;
pub use datapath::DatapathConfig;
pub use desired::Desired;
pub use interface::InterfaceConfig;
pub use mirror::MirrorConfig;
pub use plan::{Step, plan};
pub use port::PortConfig;
pub use row::Row;
pub use ssl::SslConfig;
