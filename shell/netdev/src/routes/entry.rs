//! Addresses, routes and rules as the kernel tells of them.

use std::net::IpAddr;

/// An address of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelAddress {
    /// The kernel's number of the device.
    pub ifindex: u32,
    /// The address.
    pub addr: IpAddr,
    /// How many bits of it are those of its network.
    pub len: u8,
}

/// A route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelRoute {
    /// Its table.
    pub table: u32,
    /// Where it leads.
    pub dst: IpAddr,
    /// How many bits of that count.
    pub len: u8,
    /// The kernel's number of the device that packets leave by.
    pub ifindex: u32,
    /// The next hop.
    pub gateway: Option<IpAddr>,
    /// The preferred source.
    pub source: Option<IpAddr>,
    /// Of routes to the same destination that with the lowest number is used.
    pub metric: u32,
}

/// A policy rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelRule {
    /// It is one of IPv4.
    pub ipv4: bool,
    /// Rules with lower numbers come first.
    pub priority: u32,
    /// It is for packets that do not come from `from`.
    pub invert: bool,
    /// The source that it is for, and how many bits of it count; `None`: all.
    pub from: Option<(IpAddr, u8)>,
    /// The table to ask.
    pub table: u32,
}

/// What the kernel told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteEvent {
    /// A dump begins: what was known is old.
    Reset,
    /// A device got or lost (`false`) an address.
    Address(KernelAddress, bool),
    /// A route came or went (`false`).
    Route(KernelRoute, bool),
    /// A rule came or went (`false`).
    Rule(KernelRule, bool),
    /// The dump is complete.
    Complete,
}
