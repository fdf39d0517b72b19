//! What the row of an interface asks of its session; names and defaults are those of ovs-vswitchd.conf.db(5), column `bfd`.

use flow::Mac;
use std::net::Ipv4Addr;
use units::Millis;

/// The address of a session that has no other.
pub const DEFAULT_SOURCE: Ipv4Addr = Ipv4Addr::new(169, 254, 1, 1);
/// That of its other end.
pub const DEFAULT_DESTINATION: Ipv4Addr = Ipv4Addr::new(169, 254, 1, 0);

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// No two messages are received sooner after each other than this.
    pub min_rx: Millis,
    /// No two messages are sent sooner after each other than this.
    pub min_tx: Millis,
    /// `min_rx` while there is no traffic; 0: the same.
    pub decay_min_rx: Millis,
    /// The other end is lost when it misses so many messages of ours.
    pub mult: u8,
    /// Traffic that is received says as much as messages.
    pub forwarding_if_rx: bool,
    /// What follows this end does not work.
    pub cpath_down: bool,
    /// Messages are marked in headers of tunnels that have such a mark.
    pub oam: bool,
    /// Which packets are messages.
    pub filter: Filter,
    /// Messages come from this address; `None`: from the port's.
    pub local_src: Option<Mac>,
    /// They go to this one; `None`: to one that everybody takes.
    pub local_dst: Option<Mac>,
    /// They go to this one.
    pub ip_dst: Ipv4Addr,
}

/// Which packets of a port are for its session, apart from protocol and UDP port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filter {
    /// Those to this address; `None`: to any.
    pub eth_dst: Option<Mac>,
    /// Those to the address of the session. With the default one: to any.
    pub ip: Ipv4Addr,
    /// Those with a tunnel key of 0.
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
