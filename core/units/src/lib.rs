//! Shared newtypes: each kind of number with a unit has its own type.
//!
//! These types contain only conversions, so that every crate may depend on this crate.

mod ofport;
mod time;

pub use ofport::OfPort;
pub use time::{Cycles, Micros, Millis, Nanos};

use std::fmt;

/// A datapath port number (Open vSwitch: `odp_port_t`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortNo(pub u32);

impl PortNo {
    /// No port: the `in_port` of packets that were not received by a port.
    pub const NONE: PortNo = PortNo(u32::MAX);
    /// The datapath's own local port.
    pub const LOCAL: PortNo = PortNo(0);
}

impl fmt::Display for PortNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Number of an rx or tx queue of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueId(pub u16);

/// A CPU core as the kernel numbers it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CoreId(pub u32);

impl CoreId {
    /// Stands for the thread of kernel ports, which is not pinned to a core.
    pub const UNPINNED: CoreId = CoreId(u32::MAX);
}

/// A NUMA node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NumaId(pub u32);

/// The unique identifier of a datapath flow: a hash of its masked key and its mask, printed as a UUID.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ufid(pub u128);

impl fmt::Display for Ufid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let v = self.0;
        write!(
            f,
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            (v >> 96) as u32,
            (v >> 80) as u16,
            (v >> 64) as u16,
            (v >> 48) as u16,
            v & 0xffff_ffff_ffff
        )
    }
}

/// Id of a worker of the datapath: its index in every per-worker counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerId(pub u16);
