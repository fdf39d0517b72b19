//! Multicast snooping of a bridge: applies its rows to the table of groups, and derives the snapshot's view.

use bridge::{BundleId, GroupRead};
use config::{BridgeConfig, PortConfig};
use openflow_service::Bridge;
use std::sync::Arc;
use xlate::Snooping;

/// Applies the settings of a bridge. `ports`: the names of Port rows that were added, removed or changed.
pub(crate) fn configure(bridge: &mut Bridge, old: &BridgeConfig, ports: &[String]) {
    let Some(config) = &bridge.config.snooping else {
        *bridge.multicast_groups.lock() = bridge::GroupTable::default();
        return;
    };
    let mut table = bridge.multicast_groups.lock();
    table.set_aging(config.aging_secs);
    table.set_size(config.table_size as usize);
    for name in ports {
        let (Some(old), Some(new)) = (old.ports.get(name), bridge.config.ports.get(name)) else { continue };
        // Groups that were learned at the port may belong to VLANs that it does not carry any more.
        if (&old.vlan, old.protected) != (&new.vlan, new.protected)
            && let Some(id) = bridge.known_bundle(name)
        {
            table.flush_port(id);
        }
    }
    drop(table);
    if old.snooping.is_none() {
        let rows: Vec<String> = bridge.config.ports.keys().cloned().collect();
        rows.iter().for_each(|row| bridge.ports.touch_row(row));
    }
}

/// Copies the settings of a Port row to the table of groups. `row`: `None` if the bundle has no row or no interface.
pub(crate) fn apply_port_settings(bridge: &Bridge, row: Option<&PortConfig>, id: BundleId) {
    let config = row.filter(|_| bridge.config.snooping.is_some()).map(|port| port.snooping);
    let config = config.unwrap_or_default();
    bridge.multicast_groups.lock().set_port(id, config.flood, config.flood_reports);
}

/// Multicast snooping in the form that translations read.
pub(crate) fn view(bridge: &Bridge) -> Option<Snooping> {
    let config = bridge.config.snooping.as_ref()?;
    let table = bridge.multicast_groups.lock();
    Some(Snooping {
        groups: Arc::clone(&bridge.multicast_groups) as Arc<dyn GroupRead + Send + Sync>,
        flood_ports: table.flood_ports().to_vec(),
        report_ports: table.report_ports().to_vec(),
        flood_unregistered: config.flood_unregistered,
    })
}
