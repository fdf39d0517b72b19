//! Updates the desired state from the rows that changed, so that the cost depends on the size of the change instead of
//! the number of ports.
//!
//! The result always equals that of [`Desired::read`] (`tests/follow.rs` compares them). Indexes lead from a row to the
//! rows that refer to it: from an interface to its ports, from a port to its bridges.

use crate::bridge::BridgeConfig;
use crate::desired::{Desired, ofport};
use crate::port::PortConfig;
use crate::row::Row;
use ovsdb::database::RowChange;
use ovsdb::schema::{Column, Schema, TableSchema};
use ovsdb::{Atom, Datum, Replica, Uuid};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The bridges and ports in which two states may differ, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TouchedByDatabase {
    /// Ports by bridge.
    pub bridges: BTreeMap<String, BTreeSet<String>>,
}

impl TouchedByDatabase {
    /// All bridges and ports of both states.
    pub fn all(one: &Desired, other: &Desired) -> TouchedByDatabase {
        let mut touched = TouchedByDatabase::default();
        for (name, bridge) in one.bridges.iter().chain(other.bridges.iter()) {
            touched.bridge(name).extend(bridge.ports.keys().cloned());
        }
        touched
    }

    fn bridge(&mut self, name: &str) -> &mut BTreeSet<String> {
        self.bridges.entry(name.to_owned()).or_default()
    }
}

/// A bridge as it was read last.
#[derive(Default)]
struct TrackedBridge {
    name: String,
    /// The set of ports in its row.
    listed: Option<Arc<Datum>>,
    /// The names of the ports that are in the state.
    ports: BTreeMap<Uuid, String>,
}

/// The desired state with the indexes to update it.
#[derive(Default)]
pub struct DesiredTracker {
    state: Desired,
    schema: Option<Arc<Schema>>,
    bridges: BTreeMap<Uuid, TrackedBridge>,
    /// Pairs: a port, and a bridge that has it.
    in_bridges: BTreeSet<(Uuid, Uuid)>,
    /// Pairs: an interface, and a port that has it.
    in_ports: BTreeSet<(Uuid, Uuid)>,
    /// The interfaces of each port.
    interfaces: BTreeMap<Uuid, Vec<Uuid>>,
    /// Pairs: a QoS row, and a port that refers to it.
    qos: BTreeSet<(Uuid, Uuid)>,
    /// The QoS row of each port that refers to one.
    qos_of: BTreeMap<Uuid, Uuid>,
}

/// The second elements of all pairs that begin with `first`.
fn paired_with(pairs: &BTreeSet<(Uuid, Uuid)>, first: Uuid) -> impl Iterator<Item = Uuid> {
    pairs.range((first, Uuid::nil())..=(first, Uuid::max())).map(|(_, second)| *second)
}

/// Columns from which no configuration is read: state that the switch writes, and data of other programs. If only these
/// columns change, the change is ignored. `ofport` is read separately, by `DesiredTracker::read_ofport`.
const WITHOUT_CONFIGURATION: [&str; 26] = [
    "admin_state",
    "bfd_status",
    "cfm_fault",
    "cfm_fault_status",
    "cfm_flap_count",
    "cfm_health",
    "cfm_remote_mpids",
    "cfm_remote_opstate",
    "datapath_id",
    "datapath_version",
    "duplex",
    "error",
    "external_ids",
    "ifindex",
    "is_connected",
    "link_resets",
    "link_speed",
    "link_state",
    "mac_in_use",
    "mtu",
    "ofport",
    "role",
    "rstp_statistics",
    "rstp_status",
    "statistics",
    "status",
];

/// Whether any column that is read has changed.
fn is_relevant(table: &TableSchema, change: &RowChange) -> bool {
    let (Some(old), Some(new)) = (&change.old, &change.new) else { return true };
    let is_read = |column: &Column| !WITHOUT_CONFIGURATION.contains(&column.name.as_str());
    let differs = |i: usize| !Arc::ptr_eq(old.shared(i), new.shared(i)) && old.field(i) != new.field(i);
    table.columns.iter().enumerate().any(|(i, column)| differs(i) && is_read(column))
}

/// The rows of a bridge that must be read again.
#[derive(Default)]
struct RowsToRead {
    /// Whether to read the bridge's row and the rows to which it refers, without the ports.
    bridge_row: bool,
    ports: BTreeSet<Uuid>,
}

/// By bridge: the rows that must be read again.
type Affected = BTreeMap<Uuid, RowsToRead>;

/// Both lists without their equal beginnings and ends.
fn without_common_ends<'a>(first: &'a [Atom], second: &'a [Atom]) -> (&'a [Atom], &'a [Atom]) {
    let start = first.iter().zip(second).take_while(|(a, b)| a == b).count();
    let (first, second) = (&first[start..], &second[start..]);
    let end = first.iter().rev().zip(second.iter().rev()).take_while(|(a, b)| a == b).count();
    (&first[..first.len() - end], &second[..second.len() - end])
}

/// The elements that only one of two sets has. Lists of ports are long and usually differ in a few elements, so both are
/// traversed once in parallel instead of searched, and only where they differ.
fn differences(
    first: Option<&Arc<Datum>>,
    second: Option<&Arc<Datum>>,
    in_first: &mut BTreeSet<Uuid>,
    in_second: &mut BTreeSet<Uuid>,
) {
    let [first, second] = [first, second].map(|set| set.map_or(&[][..], |set| set.elements()));
    let (first, second) = without_common_ends(first, second);
    let (mut first, mut second) = (first.iter().peekable(), second.iter().peekable());
    loop {
        match (first.peek(), second.peek()) {
            (Some(a), Some(b)) if a == b => drop((first.next(), second.next())),
            (Some(a), b) if b.is_none_or(|b| a < b) => in_first.extend(first.next().and_then(Atom::as_uuid)),
            (_, Some(_)) => in_second.extend(second.next().and_then(Atom::as_uuid)),
            (_, None) => return,
        }
    }
}

impl DesiredTracker {
    /// The state after the last call of `follow`.
    pub fn state(&self) -> &Desired {
        &self.state
    }

    /// Applies the changes since the last call; the first call reads everything. Returns the bridges and ports that may
    /// have changed.
    pub fn follow(&mut self, db: &Replica, changes: &[RowChange]) -> TouchedByDatabase {
        let is_known = match (&self.schema, db.schema()) {
            (Some(known), Some(now)) => Arc::ptr_eq(known, now),
            _ => false,
        };
        let root = Row::only(db, "Open_vSwitch");
        let Some(root) = root.filter(|root| is_known && self.state.root == Some(root.uuid)) else {
            return self.read_all(db);
        };
        let affected = self.affected(db, &root, changes);
        let mut touched = TouchedByDatabase::default();
        for (bridge, rows_to_read) in affected {
            self.update(db, &root, bridge, rows_to_read, &mut touched);
        }
        let (bridges, ofports) = (self.state.bridges.clone(), self.state.ofports.clone());
        self.state = Desired { bridges, ofports, ..Desired::of_root(&root) };
        touched
    }

    fn read_all(&mut self, db: &Replica) -> TouchedByDatabase {
        let before = std::mem::take(self).state;
        self.schema = db.schema().cloned();
        if let Some(root) = Row::only(db, "Open_vSwitch") {
            self.state = Desired::read(db);
            root.references("bridges", "Bridge").iter().for_each(|bridge| self.index(bridge));
        }
        TouchedByDatabase::all(&before, &self.state)
    }

    /// Adds a bridge and its ports to the indexes.
    fn index(&mut self, bridge: &Row<'_>) {
        let mut ports = BTreeMap::new();
        for port in bridge.references("ports", "Port") {
            self.in_bridges.insert((port.uuid, bridge.uuid));
            self.index_port(&port);
            ports.insert(port.uuid, port.str("name").to_owned());
        }
        let (name, listed) = (bridge.str("name").to_owned(), bridge.shared("ports"));
        self.bridges.insert(bridge.uuid, TrackedBridge { name, listed, ports });
    }

    fn index_port(&mut self, port: &Row<'_>) {
        self.forget_port(port.uuid);
        let interfaces = port.uuids("interfaces");
        self.in_ports.extend(interfaces.iter().map(|interface| (*interface, port.uuid)));
        self.interfaces.insert(port.uuid, interfaces);
        if let Some(qos) = port.uuids("qos").first() {
            self.qos.insert((*qos, port.uuid));
            self.qos_of.insert(port.uuid, *qos);
        }
    }

    /// Removes a port from the indexes of interfaces and QoS rows.
    fn forget_port(&mut self, port: Uuid) {
        for interface in self.interfaces.remove(&port).unwrap_or_default() {
            self.in_ports.remove(&(interface, port));
        }
        if let Some(qos) = self.qos_of.remove(&port) {
            self.qos.remove(&(qos, port));
        }
    }

    /// The bridges and ports affected by changes of rows.
    fn affected(&mut self, db: &Replica, root: &Row<'_>, changes: &[RowChange]) -> Affected {
        let mut bridge_rows: BTreeSet<Uuid> = BTreeSet::new();
        let mut ports = BTreeSet::new();
        let schema = self.schema.clone();
        for change in changes {
            let Some(table) = schema.as_ref().and_then(|s| s.tables.get(change.table)) else { continue };
            if table.name == "Interface" {
                self.read_ofport(db, change.uuid);
            }
            if !is_relevant(table, change) {
                continue;
            }
            match table.name.as_str() {
                "Interface" => ports.extend(paired_with(&self.in_ports, change.uuid)),
                "Port" => drop(ports.insert(change.uuid)),
                "QoS" => ports.extend(paired_with(&self.qos, change.uuid)),
                "Queue" => ports.extend(self.ports_with_queue(db, change.uuid)),
                "Bridge" => drop(bridge_rows.insert(change.uuid)),
                "Controller" | "Mirror" | "Flow_Table" => bridge_rows.extend(self.bridges.keys()),
                "sFlow" | "IPFIX" | "NetFlow" | "Flow_Sample_Collector_Set" | "AutoAttach" => {
                    bridge_rows.extend(self.bridges.keys());
                }
                "Open_vSwitch" => {
                    let listed: BTreeSet<Uuid> = root.uuids("bridges").into_iter().collect();
                    bridge_rows.extend(self.bridges.keys().filter(|bridge| !listed.contains(bridge)));
                    bridge_rows
                        .extend(listed.into_iter().filter(|bridge| !self.bridges.contains_key(bridge)));
                }
                _ => {}
            }
        }
        let mut affected = Affected::new();
        bridge_rows.into_iter().for_each(|bridge| affected.entry(bridge).or_default().bridge_row = true);
        for port in ports {
            for bridge in paired_with(&self.in_bridges, port) {
                affected.entry(bridge).or_default().ports.insert(port);
            }
        }
        affected
    }

    /// The ports whose QoS row refers to this queue.
    fn ports_with_queue(&self, db: &Replica, queue: Uuid) -> Vec<Uuid> {
        let mut rows: Vec<Uuid> = self.qos.iter().map(|(qos, _)| *qos).collect();
        rows.dedup();
        let has = |row: Row<'_>| row.int_references("queues", "Queue").iter().any(|(_, q)| q.uuid == queue);
        let with = rows.into_iter().filter(|qos| Row::find(db, "QoS", *qos).is_some_and(has));
        with.flat_map(|qos| paired_with(&self.qos, qos)).collect()
    }

    /// Reads the OpenFlow port number of an interface again.
    fn read_ofport(&mut self, db: &Replica, interface: Uuid) {
        let ofports = &mut self.state.ofports;
        if let Some(number) = db.row("Interface", interface).as_ref().and_then(ofport) {
            ofports.insert_mut(interface, number);
        } else {
            ofports.remove_mut(&interface);
        }
    }

    /// Updates one bridge. If the bridge's own row is read, the ports that it gained or lost are updated, too.
    fn update(
        &mut self,
        db: &Replica,
        root: &Row<'_>,
        bridge: Uuid,
        rows_to_read: RowsToRead,
        touched: &mut TouchedByDatabase,
    ) {
        let RowsToRead { bridge_row, ports: mut new } = rows_to_read;
        let mut known = self.bridges.remove(&bridge);
        let mut config = known.as_ref().and_then(|k| self.state.bridges.get(&k.name)).cloned();
        let mut gone = BTreeSet::new();
        if bridge_row {
            let row = Row::find(db, "Bridge", bridge).filter(|_| root.uuids("bridges").contains(&bridge));
            let name = row.as_ref().map(|row| row.str("name"));
            if let Some(gone) = known.take_if(|known| name != Some(&known.name)) {
                self.forget(bridge, &gone, touched);
                config = None;
            }
            let Some(row) = row else { return };
            let had = known.get_or_insert_default();
            row.str("name").clone_into(&mut had.name);
            let listed = row.shared("ports");
            differences(had.listed.as_ref(), listed.as_ref(), &mut gone, &mut new);
            had.listed = listed;
            let ports = config.map(|config| config.ports).unwrap_or_default();
            config = Some(BridgeConfig { ports, ..BridgeConfig::read_without_ports(&row) });
        }
        let (Some(mut known), Some(mut config)) = (known, config) else { return };
        let names = touched.bridge(&config.name);
        // All names are released before new ones are assigned, because ports may swap names.
        for port in gone.iter().chain(&new) {
            names.extend(self.remove_port(bridge, *port, &mut known, &mut config));
        }
        for row in new.difference(&gone).filter_map(|port| Row::find(db, "Port", *port)) {
            names.insert(row.str("name").to_owned());
            self.add_port(bridge, &row, &mut known, &mut config);
        }
        self.state.bridges.insert_mut(config.name.clone(), config);
        self.bridges.insert(bridge, known);
    }

    /// Removes a port that a bridge lost, or that is about to be read again. Returns the port's former name.
    fn remove_port(
        &mut self,
        bridge: Uuid,
        port: Uuid,
        known: &mut TrackedBridge,
        config: &mut BridgeConfig,
    ) -> Option<String> {
        let name = known.ports.remove(&port)?;
        if config.ports.get(&name).is_some_and(|config| config.uuid == port) {
            config.ports.remove_mut(&name);
        }
        self.unlink(bridge, port);
        Some(name)
    }

    fn add_port(
        &mut self,
        bridge: Uuid,
        row: &Row<'_>,
        known: &mut TrackedBridge,
        config: &mut BridgeConfig,
    ) {
        let port = PortConfig::read(row);
        self.index_port(row);
        self.in_bridges.insert((row.uuid, bridge));
        known.ports.insert(row.uuid, port.name.clone());
        config.ports.insert_mut(port.name.clone(), port);
    }

    /// Removes the pair of a port and a bridge; removes the port from all indexes if no bridge has it any more.
    fn unlink(&mut self, bridge: Uuid, port: Uuid) {
        self.in_bridges.remove(&(port, bridge));
        if paired_with(&self.in_bridges, port).next().is_none() {
            self.forget_port(port);
        }
    }

    /// Removes a bridge from the state and the indexes, and adds its ports to `touched`.
    fn forget(&mut self, bridge: Uuid, known: &TrackedBridge, touched: &mut TouchedByDatabase) {
        touched.bridge(&known.name).extend(known.ports.values().cloned());
        known.ports.keys().for_each(|port| self.unlink(bridge, *port));
        if self.state.bridges.get(&known.name).is_some_and(|config| config.uuid == bridge) {
            self.state.bridges.remove_mut(&known.name);
        }
    }
}
