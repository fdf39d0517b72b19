//! Names that a client is told.

use std::collections::BTreeMap;

/// What a client is told of the ports.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// Names of ports by datapath port number.
    pub ports: BTreeMap<u32, String>,
    /// The datapath.
    pub datapath: String,
}
