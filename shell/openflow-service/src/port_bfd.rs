//! The BFD session of a port.

use bridge::bfd::Filter;
use std::collections::BTreeMap;

/// The BFD session of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortBfd {
    /// Selects the packets of the session.
    pub filter: Filter,
    /// Packets may be sent through the port.
    pub forwarding: bool,
    /// Column `bfd_status`.
    pub status: BTreeMap<String, String>,
}
