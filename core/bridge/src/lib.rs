//! What makes a bridge a bridge: which station is behind which port, which VLANs a port carries, and whether the other
//! end of a port is there.
//!
//! Everything here is told the time and changes nothing but itself, so that the same tables serve the switch, its
//! tests and the traces. Owned by the control half; the packet path never sees it.

pub mod bfd;
pub mod mac;
pub mod tunnel;
pub mod vlan;

pub use mac::{LearnNeed, MacEntry, MacRead, MacStats, MacTable};
pub use tunnel::TunnelConfig;
pub use vlan::{PriorityTags, Refusal, VlanConfig, VlanMode, VlanSet, VlanTags};

/// A port of a bridge as the database knows it: one interface, or a bond of several (Open vSwitch: a bundle).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BundleId(pub u32);
