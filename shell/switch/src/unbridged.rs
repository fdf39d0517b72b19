//! Datapaths created by a command (`dpctl/add-dp`): no bridge uses them. Packets that match no flow are dropped, and
//! only commands add flows.

use crate::backer::{Backer, PortInfo};
use netdev::device::Netdev;
use std::collections::BTreeMap;
use units::PortNo;

/// A datapath without bridges.
pub struct UnbridgedDatapath {
    /// The datapath.
    pub backer: Backer,
    /// The devices of the datapath's ports. Port 0 is the datapath's own port and has no device.
    pub devices: BTreeMap<PortNo, Box<dyn Netdev>>,
}

impl UnbridgedDatapath {
    /// Makes a new backer a datapath without bridges: names the datapath and its own port.
    pub fn new(mut backer: Backer, name: &str) -> UnbridgedDatapath {
        name.clone_into(&mut backer.dp_name);
        let kind = backer.open_kind("internal").to_owned();
        backer.ports =
            BTreeMap::from([(PortNo::LOCAL, PortInfo { name: name.to_owned(), kind, tunnels: 0 })]);
        // Without a handler, packets that match no flow are dropped.
        backer.datapath.clear_handler();
        UnbridgedDatapath { backer, devices: BTreeMap::new() }
    }
}
