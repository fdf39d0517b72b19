//! The functions of an Ethernet bridge: MAC learning, multicast snooping, VLANs of ports, tunnel port configuration,
//! spanning trees, and detection of a lost neighbour (BFD, CFM).
//!
//! Nothing here reads a clock or has effects outside its own data, so the same tables serve the switch, its tests and
//! the traces. The control half owns them; the packet path never accesses them.

pub mod bfd;
mod bundle;
pub mod cfm;
mod event_level;
pub mod mac;
pub mod snooping;
pub mod spanning_tree;
pub mod tunnel;
pub mod vlan;

pub use bundle::BundleId;
pub use event_level::Level;
pub use mac::{LearnNeed, MacEntry, MacRead, MacStats, MacTable};
pub use snooping::{GroupRead, GroupTable};
pub use tunnel::TunnelConfig;
pub use vlan::{PriorityTags, Refusal, VlanConfig, VlanMode, VlanSet, VlanTags};
