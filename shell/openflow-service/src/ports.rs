//! The OpenFlow ports of a bridge, by number and name, with a record of changes.
//!
//! Mutable access to a port marks the port as changed. So state that is derived from ports (the snapshot, rows of the
//! database, the bridge's address and MTU) is updated without visiting all ports.

use crate::port::{Backing, BridgePort};
use netdev::device::Netdev;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::{Bound, Index};
use units::OfPort;

/// Ports and rows that may have changed since the record was last taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TouchedPorts {
    /// Ports, including removed ones.
    pub ports: BTreeSet<OfPort>,
    /// Rows of table Port, by name.
    pub rows: BTreeSet<String>,
    /// Names of interfaces without a port.
    pub without_port: BTreeSet<String>,
}

impl TouchedPorts {
    /// Whether nothing has changed.
    pub fn is_empty(&self) -> bool {
        self.ports.is_empty() && self.rows.is_empty() && self.without_port.is_empty()
    }
}

/// The ports of a bridge.
#[derive(Default)]
pub struct Ports {
    by_number: BTreeMap<OfPort, BridgePort>,
    by_name: HashMap<String, OfPort>,
    /// Numbers of the patch ports.
    patches: BTreeSet<OfPort>,
    /// Numbers of the tunnels.
    tunnels: BTreeSet<OfPort>,
    /// Numbers of ports whose devices have to be checked regularly for changes.
    watched: BTreeSet<OfPort>,
    /// Changes that were not taken yet: one record for each consumer.
    for_snapshot: TouchedPorts,
    for_status: TouchedPorts,
    for_bridge: TouchedPorts,
    for_qos: TouchedPorts,
    for_tree: BTreeSet<OfPort>,
}

impl Ports {
    /// A port by number.
    pub fn get(&self, port: &OfPort) -> Option<&BridgePort> {
        self.by_number.get(port)
    }

    /// A port by name.
    pub fn named(&self, name: &str) -> Option<&BridgePort> {
        self.by_number.get(self.by_name.get(name)?)
    }

    /// A port, mutable; it is marked as changed. Its number, name and kind of backing must not change.
    pub fn get_mut(&mut self, port: &OfPort) -> Option<&mut BridgePort> {
        let found = self.by_number.get_mut(port)?;
        self.for_tree.insert(*port);
        for touched in [&mut self.for_snapshot, &mut self.for_status, &mut self.for_bridge, &mut self.for_qos]
        {
            touched.ports.insert(*port);
            touched.rows.insert(found.port_row.clone());
        }
        Some(found)
    }

    /// A port by name, mutable.
    pub fn named_mut(&mut self, name: &str) -> Option<&mut BridgePort> {
        let port = *self.by_name.get(name)?;
        self.get_mut(&port)
    }

    /// A port, mutable, without marking it as changed: for state that no consumer of the change records reads (queries to its device, QoS).
    pub fn get_mut_unmarked(&mut self, port: &OfPort) -> Option<&mut BridgePort> {
        self.by_number.get_mut(port)
    }

    /// All devices, mutable, without marking their ports as changed.
    pub fn devices(&mut self) -> impl Iterator<Item = (OfPort, &mut Box<dyn Netdev>)> {
        self.by_number.iter_mut().filter_map(|(number, port)| Some((*number, port.netdev()?)))
    }

    /// Whether a port of that number exists.
    pub fn contains_key(&self, port: &OfPort) -> bool {
        self.by_number.contains_key(port)
    }

    /// All ports, by number.
    pub fn values(&self) -> impl Iterator<Item = &BridgePort> {
        self.by_number.values()
    }

    /// The numbers of all ports, in order.
    pub fn keys(&self) -> impl Iterator<Item = &OfPort> {
        self.by_number.keys()
    }

    /// The ports with numbers greater than `port`, in order, mutable, without marking them as changed; all ports if `port` is `None`.
    pub fn after_mut_unmarked(&mut self, port: Option<OfPort>) -> impl Iterator<Item = &mut BridgePort> {
        let from = port.map_or(Bound::Unbounded, Bound::Excluded);
        self.by_number.range_mut((from, Bound::Unbounded)).map(|(_, port)| port)
    }

    /// Patch ports.
    pub fn patches(&self) -> impl Iterator<Item = &BridgePort> {
        self.patches.iter().filter_map(|port| self.by_number.get(port))
    }

    /// Tunnels.
    pub fn tunnels(&self) -> impl Iterator<Item = &BridgePort> {
        self.tunnels.iter().filter_map(|port| self.by_number.get(port))
    }

    /// Ports whose devices have to be checked regularly.
    pub fn watched(&self) -> Vec<OfPort> {
        self.watched.iter().copied().collect()
    }

    /// Whether no device has to be checked regularly for changes.
    pub fn watches_none(&self) -> bool {
        self.watched.is_empty()
    }

    /// Number of ports.
    pub fn len(&self) -> usize {
        self.by_number.len()
    }

    /// Whether there are no ports.
    pub fn is_empty(&self) -> bool {
        self.by_number.is_empty()
    }

    /// Adds a port.
    pub fn insert(&mut self, number: OfPort, port: BridgePort) {
        self.remove(&number);
        match &port.backing {
            Backing::Patch { .. } => _ = self.patches.insert(number),
            Backing::Tunnel { .. } => _ = self.tunnels.insert(number),
            Backing::Device { netdev, .. } if netdev.needs_periodic_check() => {
                _ = self.watched.insert(number);
            }
            Backing::Device { .. } => {}
        }
        self.by_name.insert(port.name.clone(), number);
        self.by_number.insert(number, port);
        self.get_mut(&number);
    }

    /// Removes a port.
    pub fn remove(&mut self, number: &OfPort) -> Option<BridgePort> {
        self.get_mut(number);
        let port = self.by_number.remove(number)?;
        if self.by_name.get(&port.name) == Some(number) {
            self.by_name.remove(&port.name);
        }
        for set in [&mut self.patches, &mut self.tunnels, &mut self.watched] {
            set.remove(number);
        }
        Some(port)
    }

    /// Marks a row of table Port as changed.
    pub fn touch_row(&mut self, row: &str) {
        for touched in [&mut self.for_snapshot, &mut self.for_status, &mut self.for_bridge, &mut self.for_qos]
        {
            touched.rows.insert(row.to_owned());
        }
    }

    /// Marks the status of an interface as changed. The interface need not have a port.
    pub fn touch_status(&mut self, interface: &str) {
        match self.by_name.get(interface) {
            Some(port) => drop(self.for_status.ports.insert(*port)),
            None => drop(self.for_status.without_port.insert(interface.to_owned())),
        }
    }

    /// Marks a port as changed.
    pub fn touch(&mut self, port: OfPort) {
        self.get_mut(&port);
    }

    /// Marks the status of all ports as changed.
    pub fn touch_all_status(&mut self) {
        self.for_status.ports.extend(self.by_number.keys());
    }

    /// Whether there are changes for the snapshot that were not taken.
    pub fn differ_from_snapshot(&self) -> bool {
        !self.for_snapshot.is_empty()
    }

    /// Takes the changes since the last call, for the snapshot.
    pub fn take_for_snapshot(&mut self) -> TouchedPorts {
        std::mem::take(&mut self.for_snapshot)
    }

    /// Takes the changes since the last call, for the status in the database.
    pub fn take_for_status(&mut self) -> TouchedPorts {
        std::mem::take(&mut self.for_status)
    }

    /// Takes the changes since the last call, for the bridge's address and MTU.
    pub fn take_for_bridge(&mut self) -> TouchedPorts {
        std::mem::take(&mut self.for_bridge)
    }

    /// Takes the ports that may have changed since the last call, for the spanning tree.
    pub fn take_for_tree(&mut self) -> BTreeSet<OfPort> {
        std::mem::take(&mut self.for_tree)
    }

    /// Takes the changes since the last call, for QoS.
    pub fn take_for_qos(&mut self) -> TouchedPorts {
        std::mem::take(&mut self.for_qos)
    }
}

impl Index<&OfPort> for Ports {
    type Output = BridgePort;

    fn index(&self, port: &OfPort) -> &BridgePort {
        &self.by_number[port]
    }
}
