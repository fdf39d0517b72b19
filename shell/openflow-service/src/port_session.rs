//! The sessions of a port: BFD, CFM.

use bridge::{bfd, cfm};
use std::collections::BTreeMap;

/// The BFD session of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortBfd {
    /// Selects the packets of the session.
    pub filter: bfd::Filter,
    /// Packets may be sent through the port.
    pub forwarding: bool,
    /// Column `bfd_status`.
    pub status: BTreeMap<String, String>,
}

/// The CFM session of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortCfm {
    /// Selects the packets of the session.
    pub filter: cfm::Filter,
    /// Packets may be sent through the port.
    pub forwarding: bool,
    /// What the columns of the database show.
    pub status: cfm::Status,
}
