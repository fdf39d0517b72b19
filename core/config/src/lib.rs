//! Typed desired state from database rows, and the plan that reaches it.
//!
//! `desired` reads rows once and turns them into plain data; `plan` compares two such states and yields the steps, in
//! the order in which they are safe. Nothing here touches a device: `switch` carries the steps out.

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
