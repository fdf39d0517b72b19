//! One route, and one that is to be added.

use crate::Prefix;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

/// A route of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Where it leads.
    pub prefix: Prefix,
    /// It is for packets of this mark only.
    pub mark: u32,
    /// The device that packets leave by.
    pub dev: Arc<str>,
    /// The next hop; `None`: the destination itself.
    pub gateway: Option<IpAddr>,
    /// The address that packets are sent from.
    pub source: IpAddr,
    /// `ovs/route/add` made it.
    pub user: bool,
    /// Of the kernel's routes to the same destination that with the lowest is used.
    pub metric: u32,
    /// Routes are shown in the order in which they were added.
    pub(crate) serial: u64,
}

/// A route to be added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRoute<'a> {
    /// Where it leads.
    pub prefix: Prefix,
    /// It is for packets of this mark only.
    pub mark: u32,
    /// The device that packets leave by.
    pub dev: &'a str,
    /// The next hop.
    pub gateway: Option<IpAddr>,
    /// The address that packets are sent from; `None`: one of the device in the network of the next hop.
    pub source: Option<IpAddr>,
    /// `ovs/route/add` makes it: it comes before a route of the kernel whose prefix is up to 31 bits longer.
    pub user: bool,
    /// Of the kernel's routes to the same destination that with the lowest is used.
    pub metric: u32,
}

/// The device of a route has no address that packets could be sent from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteError;

impl fmt::Display for RouteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Error while inserting route.")
    }
}
