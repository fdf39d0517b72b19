//! The functions of an Ethernet bridge: MAC learning, multicast snooping, VLANs of ports, tunnel port configuration,
//! spanning trees, detection of a lost neighbour (BFD, CFM), and discovery of neighbours (LLDP).
//!
//! The code reads no clock and has no effects outside its own data, so the same tables serve the switch, tests and
//! traces. The control half owns the tables; the packet path never accesses them.

pub mod bfd;
mod bundle;
pub mod cfm;
mod event_level;
pub mod lldp;
pub mod mac;
mod payload;
pub mod snooping;
pub mod spanning_tree;
pub mod tunnel;
pub mod vlan;

pub use bundle::BundleId;
pub use event_level::Level;
pub use mac::{MacEntry, MacObservation, MacRead, MacStats, MacTable};
pub use snooping::{GroupRead, GroupTable};
pub use tunnel::TunnelConfig;
pub use vlan::{PriorityTags, Refusal, VlanConfig, VlanMode, VlanSet, VlanTags};
