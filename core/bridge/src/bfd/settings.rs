//! Settings of a session from the `Interface` row. Names and defaults are those of ovs-vswitchd.conf.db(5), column
//! `bfd`.

use flow::Mac;
use std::net::Ipv4Addr;
use units::Millis;

/// Default source address of messages.
pub const DEFAULT_SOURCE: Ipv4Addr = Ipv4Addr::new(169, 254, 1, 1);
/// Default destination address of messages.
pub const DEFAULT_DESTINATION: Ipv4Addr = Ipv4Addr::new(169, 254, 1, 0);

/// The settings of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Minimum interval between received messages.
    pub min_rx: Millis,
    /// Minimum interval between sent messages.
    pub min_tx: Millis,
    /// `min_rx` without traffic; 0: `min_rx` always applies.
    pub decay_min_rx: Millis,
    /// Detection multiplier: the other end declares the session down after missing this many messages.
    pub mult: u8,
    /// Received traffic counts as a sign of life, too, not only messages.
    pub forwarding_if_rx: bool,
    /// A path beyond this end is down (concatenated path down).
    pub cpath_down: bool,
    /// Mark messages as OAM in tunnel headers that have such a flag.
    pub oam: bool,
    /// Selects the received packets that are messages for the session.
    pub filter: Filter,
    /// Source MAC address of messages; `None`: the port's address.
    pub local_src: Option<Mac>,
    /// Destination MAC address of messages; `None`: the default multicast address.
    pub local_dst: Option<Mac>,
    /// Destination IPv4 address of messages.
    pub ip_dst: Ipv4Addr,
}

/// Selects the packets of a port that belong to its session, in addition to protocol and UDP port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filter {
    /// Destination MAC address; `None`: any.
    pub eth_dst: Option<Mac>,
    /// Destination IPv4 address; [`DEFAULT_SOURCE`] matches any address. Sent messages have the same address
    /// as their source.
    pub ip: Ipv4Addr,
    /// The tunnel key must be 0.
    pub check_tnl_key: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            min_rx: Millis(1000),
            min_tx: Millis(100),
            decay_min_rx: Millis(0),
            mult: 3,
            forwarding_if_rx: false,
            cpath_down: false,
            oam: false,
            filter: Filter { eth_dst: None, ip: DEFAULT_SOURCE, check_tnl_key: false },
            local_src: None,
            local_dst: None,
            ip_dst: DEFAULT_DESTINATION,
        }
    }
}
