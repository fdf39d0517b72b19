//! OVN's name of a port, from `external_ids` of its rows. The name is read when a command or a metrics scrape requests it; no
//! configuration depends on it.

use crate::database::DbClient;
use crate::switch::Switch;
use config::BridgeConfig;
use openflow_service::{Backing, BridgePort};

/// Keys of the Port row that name what is behind a tunnel or a patch port.
const OF_PORT: [&str; 4] =
    ["ovn-chassis-id", "ovn-localnet-port", "ovn-l3gateway-port", "ovn-l2gateway-port"];

/// The name of the logical port that is bound to a port (`iface-id`), or of the chassis behind a tunnel.
pub fn logical_name<'a>(db: &'a DbClient, bridge: &BridgeConfig, port: &BridgePort) -> Option<&'a str> {
    let of_interface = db.replica.row("Interface", port.uuid)?.map_str("external_ids", "iface-id");
    if of_interface.is_some() || matches!(port.backing, Backing::Device { .. }) {
        return of_interface;
    }
    let row = db.replica.row("Port", bridge.ports.get(&port.port_row)?.uuid)?;
    OF_PORT.iter().find_map(|key| row.map_str("external_ids", key))
}

impl Switch {
    /// OVN's name of a port of any bridge.
    pub fn logical_name_of(&self, port: &BridgePort) -> Option<&str> {
        let of = |bridge: &&openflow_service::Bridge| bridge.config.ports.contains_key(&port.port_row);
        logical_name(&self.db, &self.bridges.values().find(of)?.config, port)
    }
}
