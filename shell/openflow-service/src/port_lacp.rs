//! LACP of a port as the main loop knows it.

use flow::Mac;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortLacp {
    /// Packets may be sent by the port.
    pub may_enable: bool,
    /// Something is known of the other end.
    pub is_current: bool,
    /// What LACP was told of the link.
    pub facts: LacpFacts,
}

/// A link as LACP sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LacpFacts {
    /// Its address.
    pub mac: Mac,
    /// It has a carrier.
    pub up: bool,
}
