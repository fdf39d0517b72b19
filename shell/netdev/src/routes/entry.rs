//! Addresses, routes and rules as the kernel reports them.

use std::net::IpAddr;

/// An address of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelAddress {
    /// Index of the interface.
    pub ifindex: u32,
    /// The address.
    pub addr: IpAddr,
    /// Length of its network prefix.
    pub len: u8,
}

/// A route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelRoute {
    /// Its table.
    pub table: u32,
    /// The destination.
    pub dst: IpAddr,
    /// Length of the destination's prefix.
    pub len: u8,
    /// Index of the outgoing interface.
    pub ifindex: u32,
    /// The next hop.
    pub gateway: Option<IpAddr>,
    /// The preferred source.
    pub source: Option<IpAddr>,
    /// Of routes to the same destination, the one with the lowest metric is used.
    pub metric: u32,
}

/// A policy rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelRule {
    /// It is a rule of IPv4.
    pub ipv4: bool,
    /// Rules with lower numbers come first.
    pub priority: u32,
    /// It applies to packets that do not come from `from`.
    pub invert: bool,
    /// The source prefix it applies to; `None`: all sources.
    pub from: Option<(IpAddr, u8)>,
    /// The table to look up.
    pub table: u32,
}

/// An event from the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteEvent {
    /// A dump begins: earlier information is outdated.
    Reset,
    /// A device gained (`true`) or lost an address.
    Address(KernelAddress, bool),
    /// A route was added (`true`) or removed.
    Route(KernelRoute, bool),
    /// A rule was added (`true`) or removed.
    Rule(KernelRule, bool),
    /// The dump is complete.
    Complete,
}
