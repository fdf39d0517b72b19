//! A route, and the parameters of a route to add.

use crate::Prefix;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

/// A route of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Destination.
    pub prefix: Prefix,
    /// The route applies only to packets with this mark.
    pub mark: u32,
    /// The output device.
    pub dev: Arc<str>,
    /// The next hop; `None`: the destination is directly reachable.
    pub gateway: Option<IpAddr>,
    /// Source address of packets.
    pub source: IpAddr,
    /// The route was added by `ovs/route/add`.
    pub user: bool,
    /// Among the kernel's routes to one destination, the one with the lowest metric is used.
    pub metric: u32,
    /// Number of the insertion: routes are listed in the order in which they were added.
    pub(crate) serial: u64,
}

/// Parameters of a route to add.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRoute<'a> {
    /// Destination.
    pub prefix: Prefix,
    /// The route applies only to packets with this mark.
    pub mark: u32,
    /// The output device.
    pub dev: &'a str,
    /// The next hop.
    pub gateway: Option<IpAddr>,
    /// Source address of packets. `None`: an address of the device in the network of the destination or the next hop.
    pub source: Option<IpAddr>,
    /// The route is added by `ovs/route/add`: it is preferred to kernel routes whose prefix is up to 32 bits longer.
    pub user: bool,
    /// Among the kernel's routes to one destination, the one with the lowest metric is used.
    pub metric: u32,
}

/// Error: the device of a route has no address that can be the source of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteError;

impl fmt::Display for RouteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Error while inserting route.")
    }
}
