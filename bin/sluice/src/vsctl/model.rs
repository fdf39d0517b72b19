//! The tree of bridges, ports and interfaces. A fake bridge, which is a port with a VLAN in the database, is a bridge
//! of its own in this tree.

use super::log::VSCTL;
use super::schema_names::ROOT;
use super::transaction::Transaction;
use ovsdb::Uuid;

/// Index of a bridge in the model.
pub type BridgeId = usize;

/// A bridge.
#[derive(Debug)]
pub struct Bridge {
    /// The row of the bridge; `None` for a fake bridge.
    pub row: Option<Uuid>,
    /// The name of the bridge.
    pub name: String,
    /// The real bridge that contains a fake bridge; `None` for a real bridge.
    pub parent: Option<BridgeId>,
    /// The VLAN of a fake bridge; 0 for a real bridge.
    pub vlan: i64,
}

/// A port.
#[derive(Debug)]
pub struct Port {
    /// The row of the port.
    pub row: Uuid,
    /// The name of the port.
    pub name: String,
    /// The bridge of the port: the fake bridge if the port belongs to one.
    pub bridge: BridgeId,
}

/// An interface.
#[derive(Debug)]
pub struct Iface {
    /// The row of the interface.
    pub row: Uuid,
    /// The name of the interface.
    pub name: String,
    /// The row of the port that contains the interface.
    pub port: Uuid,
    /// The bridge of that port.
    pub bridge: BridgeId,
}

/// All bridges, ports and interfaces.
#[derive(Debug, Default)]
pub struct Model {
    /// Bridges, real and fake.
    pub bridges: Vec<Bridge>,
    /// Ports.
    pub ports: Vec<Port>,
    /// Interfaces.
    pub ifaces: Vec<Iface>,
}

/// The VLAN of a port, if it is valid (0 to 4095).
fn vlan_of(tx: &Transaction<'_>, port: Uuid) -> Option<i64> {
    tx.integer("Port", port, "tag").filter(|tag| (0..=4095).contains(tag))
}

impl Model {
    /// Reads the tree below the root row.
    pub fn build(tx: &Transaction<'_>, root: Uuid) -> Model {
        let mut model = Model::default();
        let rows = tx.references(ROOT, root, "bridges");
        let mut own_ports = Vec::new();
        for row in rows.into_iter().filter(|row| tx.exists("Bridge", *row)) {
            let name = tx.string("Bridge", row, "name");
            if model.bridges.iter().any(|b| b.name == name) {
                runtime::warn!(VSCTL, "{name}: database contains duplicate bridge name");
                continue;
            }
            let id = model.bridges.len();
            model.bridges.push(Bridge { row: Some(row), name, parent: None, vlan: 0 });
            own_ports.push((id, tx.references("Bridge", row, "ports")));
            for port in tx.references("Bridge", row, "ports") {
                model.add_fake_bridge(tx, id, port);
            }
        }
        for (bridge, ports) in own_ports {
            ports.into_iter().for_each(|port| model.add_port(tx, bridge, port));
        }
        model
    }

    fn add_fake_bridge(&mut self, tx: &Transaction<'_>, parent: BridgeId, port: Uuid) {
        let Some(vlan) = vlan_of(tx, port).filter(|_| tx.flag("Port", port, "fake_bridge")) else { return };
        let name = tx.string("Port", port, "name");
        if self.bridges.iter().any(|b| b.name == name) {
            return;
        }
        if let Some(other) = self.child(parent, vlan).and_then(|id| self.bridges.get(id)) {
            let in_bridge = self.bridges.get(parent).map_or("", |b| &b.name);
            runtime::warn!(
                VSCTL,
                "{in_bridge}: bridge has multiple VLAN bridges ({name} and {}) for VLAN {vlan}, but only one is allowed",
                other.name
            );
        }
        self.bridges.push(Bridge { row: None, name, parent: Some(parent), vlan });
    }

    fn add_port(&mut self, tx: &Transaction<'_>, real: BridgeId, row: Uuid) {
        if !tx.exists("Port", row) {
            return;
        }
        let name = tx.string("Port", row, "name");
        if let Some(other) = self.port(&name) {
            let names = [real, other.bridge].map(|b| self.bridge_name(b));
            match other.row == row {
                true => runtime::warn!(
                    VSCTL,
                    "{name}: port is in multiple bridges ({} and {})",
                    names[0],
                    names[1]
                ),
                false => runtime::err!(VSCTL, "{name}: database contains duplicate port name"),
            }
            return;
        }
        let bridge = vlan_of(tx, row).and_then(|vlan| self.child(real, vlan)).unwrap_or(real);
        for iface in tx.references("Port", row, "interfaces") {
            self.add_iface(tx, bridge, (row, &name), iface);
        }
        self.ports.push(Port { row, name, bridge });
    }

    fn add_iface(&mut self, tx: &Transaction<'_>, bridge: BridgeId, port: (Uuid, &str), row: Uuid) {
        if !tx.exists("Interface", row) {
            return;
        }
        let name = tx.string("Interface", row, "name");
        match self.iface(&name) {
            None => self.ifaces.push(Iface { row, name, port: port.0, bridge }),
            Some(other) if other.row == row => {
                let first = self.ports.iter().find(|p| p.row == other.port).map_or("", |p| &p.name);
                runtime::warn!(VSCTL, "{name}: interface is in multiple ports ({first} and {})", port.1);
            }
            Some(_) => runtime::err!(VSCTL, "{name}: database contains duplicate interface name"),
        }
    }

    /// The fake bridge for a VLAN of a bridge.
    pub fn child(&self, parent: BridgeId, vlan: i64) -> Option<BridgeId> {
        self.bridges.iter().position(|b| b.parent == Some(parent) && b.vlan == vlan)
    }

    /// The index of the bridge with this name.
    pub fn bridge(&self, name: &str) -> Option<BridgeId> {
        self.bridges.iter().position(|b| b.name == name)
    }

    /// The name of a bridge.
    pub fn bridge_name(&self, id: BridgeId) -> &str {
        self.bridges.get(id).map_or("", |b| &b.name)
    }

    /// The bridge itself if it is real, otherwise its parent.
    pub fn real(&self, id: BridgeId) -> BridgeId {
        self.bridges.get(id).and_then(|b| b.parent).unwrap_or(id)
    }

    /// The row of the bridge if it is real, otherwise the row of its parent.
    pub fn real_row(&self, id: BridgeId) -> Uuid {
        self.bridges.get(self.real(id)).and_then(|b| b.row).unwrap_or_default()
    }

    /// The port of this name.
    pub fn port(&self, name: &str) -> Option<&Port> {
        self.ports.iter().find(|p| p.name == name)
    }

    /// The interface of this name.
    pub fn iface(&self, name: &str) -> Option<&Iface> {
        self.ifaces.iter().find(|i| i.name == name)
    }
}
