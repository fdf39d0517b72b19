//! What the ports of a bridge announce by LLDP, and the VLANs that auto-attach adds to them. **Thread**: the main loop.

use crate::backer::Backer;
use crate::row_values::RowValues;
use crate::switch::Switch;
use bridge::lldp::Announcement;
use config::BridgeConfig;
use openflow_service::{Bridge, BridgePort, TrunkChange};
use ovsdb::{Atom, Datum, Replica, Uuid};
use std::collections::BTreeSet;
use translation::PortKey;
use units::{Millis, OfPort};

/// What the ports of a bridge announce. Without a description of its own, the system is described by program and version.
fn announcement(bridge: &BridgeConfig) -> Announcement {
    let row = bridge.auto_attach.clone().unwrap_or_default();
    let described = Some(row.system_description).filter(|text| !text.is_empty());
    Announcement {
        system_name: row.system_name,
        system_description: described.unwrap_or_else(|| format!("Sluice {}", env!("CARGO_PKG_VERSION"))),
        mappings: row.mappings,
    }
}

impl Switch {
    /// Applies the configuration of a bridge to LLDP: to the interfaces of changed rows of `Port`, and to the ports that have a session, because
    /// the announcement may have changed.
    pub(crate) fn configure_lldp(&mut self, bridge: &str, rows: &[String]) {
        let now = self.clock.now();
        let Some(running) = self.bridges.get_mut(bridge) else { return };
        let Some(backer) = self.datapaths.of_bridge(running) else { return };
        let Bridge { id, config, ports, .. } = &*running;
        let changed = rows.iter().filter_map(|row| config.ports.get(row)).flat_map(|row| &row.interfaces);
        let enabled = changed.filter(|row| row.lldp).filter_map(|row| Some(ports.named(&row.name)?.ofport));
        let sessions = backer.upcall_translator.lldp.of_bridge(*id).into_iter().map(|(_, ofport)| ofport);
        let affected: BTreeSet<_> = enabled.chain(sessions).collect();
        configure_ports(backer, running, affected, now);
    }

    /// Creates the session of a new port if the bridge is configured already: the device of a configured interface has appeared.
    pub(crate) fn add_lldp(&mut self, bridge: &str, interface: &str) {
        let now = self.clock.now();
        let Some(running) = self.bridges.get_mut(bridge) else { return };
        let Some(backer) = self.datapaths.of_bridge(running) else { return };
        let is_enabled = running.config.interface(interface).is_some_and(|(_, interface)| interface.lldp);
        let new = running.ports.named(interface).filter(|_| is_enabled).map(|port| port.ofport);
        configure_ports(backer, running, BTreeSet::from_iter(new), now);
    }
}

/// Applies the configuration of a bridge to the sessions of these ports.
fn configure_ports(backer: &Backer, bridge: &mut Bridge, affected: BTreeSet<OfPort>, now: Millis) {
    if affected.is_empty() {
        return;
    }
    let Bridge { id, config, ports, .. } = bridge;
    let announcement = announcement(config);
    for ofport in affected {
        let Some(port) = ports.get_mut(&ofport) else { continue };
        let Some((row, interface)) = config.interface(&port.name) else { continue };
        let announcement = interface.lldp.then_some(&announcement);
        configure(backer, port, (*id, ofport), (row.uuid, announcement), now);
    }
}

/// Creates, changes or, without an announcement, removes the session of a port. `row`: the port's row in the database.
fn configure(
    backer: &Backer,
    port: &mut BridgePort,
    at: PortKey,
    (row, announcement): (Uuid, Option<&Announcement>),
    now: Millis,
) {
    let Some(announcement) = announcement else {
        backer.upcall_translator.lldp.ports.forget(at);
        if let Some(lldp) = &mut port.lldp {
            lldp.enabled = false;
            lldp.set_vlans(row, BTreeSet::new());
        }
        return;
    };
    backer.upcall_translator.lldp.configure(at, &port.name, port.hw_addr(), announcement, now);
    let vlans = announcement.mappings.values().copied().collect();
    let lldp = port.lldp.get_or_insert_default();
    lldp.enabled = true;
    lldp.set_vlans(row, vlans);
}

/// The trunk VLANs of a port after the changes by auto-attach, if its row does not have them yet. As in Open vSwitch, a port that gets its first
/// trunk becomes a trunk port, and one that loses its last trunk becomes an access port, because a trunk port without trunks carries all VLANs.
pub(crate) fn trunk_row(bridge: &mut Bridge, ofport: OfPort, replica: &Replica) -> Option<RowValues> {
    let port = bridge.ports.get_mut_unmarked(&ofport)?;
    let lldp = port.lldp.as_mut().filter(|lldp| !lldp.trunk_changes.is_empty())?;
    let config = bridge.config.ports.get(&port.port_row).filter(|config| config.interfaces.len() == 1)?;
    let row = replica.row("Port", config.uuid)?;
    let mut trunks: BTreeSet<i64> = row.datum("trunks")?.keys().filter_map(Atom::as_integer).collect();
    lldp.trunk_changes
        .retain(|vlan, change| trunks.contains(&i64::from(*vlan)) != (*change == TrunkChange::Add));
    if lldp.trunk_changes.is_empty() {
        return None;
    }
    let mut wanted = RowValues::new("Port", config.uuid);
    let mut mode = None;
    for (vlan, change) in &lldp.trunk_changes {
        match change {
            TrunkChange::Add => drop(trunks.insert(i64::from(*vlan))),
            TrunkChange::Remove => drop(trunks.remove(&i64::from(*vlan))),
        }
        mode = match trunks.len() {
            0 => Some("access"),
            1 => Some("trunk"),
            _ => mode,
        };
    }
    if let Some(mode) = mode {
        wanted.set("vlan_mode", Datum::scalar(mode));
    }
    wanted.set("trunks", Datum::set(trunks));
    Some(wanted)
}
