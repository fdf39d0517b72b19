//! The BFD session of a port as the main loop knows it.

use bridge::bfd::Filter;
use std::collections::BTreeMap;

/// A port's session as the main loop knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortBfd {
    /// Which packets are for it.
    pub filter: Filter,
    /// Packets may be sent by the port.
    pub forwarding: bool,
    /// Column `bfd_status`.
    pub status: BTreeMap<String, String>,
}
