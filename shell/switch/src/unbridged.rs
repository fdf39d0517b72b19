//! Datapaths made by a command (`dpctl/add-dp`): no bridge uses them, their misses are dropped, and their flows are those
//! that commands put.

use crate::backer::{Backer, PortInfo};
use netdev::device::Netdev;
use std::collections::BTreeMap;
use units::PortNo;

/// See the module.
pub struct UnbridgedDatapath {
    /// The datapath.
    pub backer: Backer,
    /// Its ports' devices. Port 0 is the datapath's own and has none.
    pub devices: BTreeMap<PortNo, Box<dyn Netdev>>,
}

impl UnbridgedDatapath {
    /// Names a fresh datapath, and its own port after it.
    pub fn new(mut backer: Backer, name: &str) -> UnbridgedDatapath {
        name.clone_into(&mut backer.dp_name);
        let kind = backer.open_kind("internal").to_owned();
        backer.ports =
            BTreeMap::from([(PortNo::LOCAL, PortInfo { name: name.to_owned(), kind, tunnels: 0 })]);
        // There is no control half: what no flow matches is lost.
        backer.datapath.clear_handler();
        UnbridgedDatapath { backer, devices: BTreeMap::new() }
    }
}
