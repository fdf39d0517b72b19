//! The contract between the halves: datapath flow, action, upcall, statistics, capabilities.
//!
//! The control half (`xlate`, `ofproto`) writes [`DpAction`]s and answers [`Upcall`]s with [`Translation`]s; the data
//! half (`datapath`) runs them and keeps the statistics. Neither names the other: this crate is all they share.
//! Every `Flow` that crosses it carries a *datapath* port number in `in_port`.

pub mod action;
pub mod capability;
pub mod drop_reason;
pub mod meter;
pub mod set_field;
pub mod stats;
pub mod text;
pub mod ufid;
pub mod upcall;
pub mod userspace;

pub use action::{
    CheckPktLen, Ct, CtNat, CtTimeout, DpAction, HashAlg, LbOutput, PushNsh, Sample, TunnelHeader, TunnelPush,
};
pub use capability::Capabilities;
pub use drop_reason::DropReason;
pub use meter::{MeterCounts, MeterSlot, MeterSpec, Meters};
pub use set_field::{
    ArpKey, EthKey, IcmpKey, Ipv4Key, Ipv6Key, Masked, NdExtKey, NdKey, PortsKey, SetField, TunnelSet,
};
pub use stats::{Counter, DpFlow, DpStats, FlowOwner, FlowStats, NoOwner, PortStats};
pub use ufid::Ufids;
pub use upcall::{Translation, Upcall, UpcallHandler};
pub use userspace::{SlowReason, Userspace, UserspaceCookie};
