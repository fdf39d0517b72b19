//! State of a port's BFD and CFM sessions.

use bridge::{bfd, cfm};
use std::collections::BTreeMap;

/// The BFD session of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortBfd {
    /// Selects the packets of the session.
    pub filter: bfd::Filter,
    /// Whether the session allows that packets are sent through the port.
    pub forwarding: bool,
    /// Column `bfd_status`.
    pub status: BTreeMap<String, String>,
}

/// The CFM session of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortCfm {
    /// Selects the packets of the session.
    pub filter: cfm::Filter,
    /// Whether the session allows that packets are sent through the port.
    pub forwarding: bool,
    /// Values of the `cfm_…` columns of the database.
    pub status: cfm::Status,
}
