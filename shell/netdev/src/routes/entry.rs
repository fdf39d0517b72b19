//! Addresses, routes and policy rules of the kernel.

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
    /// The metric. If there are several routes to a destination, the one with the lowest metric is used.
    pub metric: u32,
}

/// A policy rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelRule {
    /// Whether it is a rule of IPv4; otherwise of IPv6.
    pub ipv4: bool,
    /// Rules with lower numbers are evaluated first.
    pub priority: u32,
    /// Whether it applies to packets whose source is not in `from`.
    pub invert: bool,
    /// The source prefix to which it applies; `None`: all sources.
    pub from: Option<(IpAddr, u8)>,
    /// The table that is looked up.
    pub table: u32,
}

/// An event from the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteEvent {
    /// A dump begins: discard the entries known so far.
    Reset,
    /// A device gained (`true`) or lost (`false`) an address.
    Address(KernelAddress, bool),
    /// A route was added (`true`) or removed (`false`).
    Route(KernelRoute, bool),
    /// A rule was added (`true`) or removed (`false`).
    Rule(KernelRule, bool),
    /// The dump is complete.
    Complete,
    /// The dump has failed: what was reported since [`Reset`](RouteEvent::Reset) is incomplete.
    Failed,
}
