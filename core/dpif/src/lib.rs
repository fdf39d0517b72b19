//! The interface between datapath and control half: flows, actions, upcalls, statistics, capabilities.
//!
//! The control half (`xlate`, `ofproto`) makes [`DpAction`]s and answers [`Upcall`]s with [`Translation`]s. The
//! datapath (`datapath`) executes the actions and counts packets. Neither depends on the other: they share only this
//! crate. Every `Flow` in this interface has a *datapath* port number in `in_port`.

pub mod action;
pub mod capability;
pub mod drop_reason;
pub mod meter;
mod read_egress;
pub mod sampled_egress;
pub mod set_field;
pub mod stats;
pub mod text;
pub mod ufid;
pub mod upcall;
pub mod userspace;

pub use action::{
    BOND_BUCKETS, CheckPktLen, Ct, CtNat, CtTimeout, DpAction, HashAlg, LbOutput, PushNsh, Sample,
    TunnelHeader, TunnelPush,
};
pub use capability::Capabilities;
pub use drop_reason::DropReason;
pub use meter::{MeterCounts, MeterSlot, MeterSpec, Meters};
pub use sampled_egress::Egress;
pub use set_field::{
    ArpKey, EthKey, IcmpKey, Ipv4Key, Ipv6Key, Masked, NdExtKey, NdKey, PortsKey, SetField, SetTunnel,
};
pub use stats::{Counter, DpFlow, DpStats, FlowOwner, FlowStats, NoOwner, PortStats};
pub use ufid::Ufids;
pub use upcall::{Translation, Upcall, UpcallHandler};
pub use userspace::{SampleData, SlowReason, Userspace, UserspaceCookie};
