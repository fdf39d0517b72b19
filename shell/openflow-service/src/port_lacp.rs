//! LACP of a port.

use flow::Mac;

/// LACP of a port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortLacp {
    /// Packets may be sent through the port.
    pub may_enable: bool,
    /// The partner's information is current.
    pub is_current: bool,
    /// Facts about the link as they were last passed to LACP.
    pub facts: LacpFacts,
}

/// Facts about a link for LACP.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LacpFacts {
    /// MAC address.
    pub mac: Mac,
    /// The link has a carrier.
    pub up: bool,
}
