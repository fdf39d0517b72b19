//! Names of ports in the output of a capture.

use std::collections::BTreeMap;

/// The names of a datapath and of its ports.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// Names of ports by datapath port number.
    pub ports: BTreeMap<u32, String>,
    /// Name of the datapath.
    pub datapath: String,
}
