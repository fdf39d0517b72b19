//! LACP of a port.

use flow::Mac;

/// The result of LACP for a port, and the input that was last passed to LACP.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortLacp {
    /// Whether LACP allows that packets are sent through the port.
    pub may_enable: bool,
    /// Whether there is information from the partner, current or expired.
    pub has_partner_info: bool,
    /// Facts about the link as they were last passed to LACP.
    pub facts: LacpFacts,
}

/// State of a link that LACP needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LacpFacts {
    /// MAC address of the port.
    pub mac: Mac,
    /// Whether the port is up and has a carrier.
    pub up: bool,
}
