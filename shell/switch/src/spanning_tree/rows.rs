//! Database columns about spanning trees.

use crate::backer::Backer;
use crate::row_values::RowValues;
use bridge::spanning_tree::{Pairs, Protocol};
use openflow_service::{Bridge, BridgePort};
use ovsdb::Datum;
use std::collections::BTreeMap;
use units::Millis;

fn owned(pairs: Pairs<String>) -> BTreeMap<String, String> {
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// The columns `status` and `rstp_status` of a bridge.
pub(crate) fn bridge_columns(backer: &Backer, bridge: &Bridge) -> [BTreeMap<String, String>; 2] {
    match backer.upcall_translator.trees.status(bridge.id) {
        Some((Protocol::Stp, pairs)) => [owned(pairs), BTreeMap::new()],
        Some((Protocol::Rstp, pairs)) => [BTreeMap::new(), owned(pairs)],
        None => Default::default(),
    }
}

/// The spanning tree columns of a Port row; they are empty for a bond.
pub(crate) fn port_row(
    backer: &Backer,
    bridge: &Bridge,
    port: &BridgePort,
    now: Millis,
) -> Option<RowValues> {
    let row = bridge.config.ports.get(&port.port_row)?;
    let at = (bridge.id, port.ofport);
    let (protocol, (status, statistics)) = port
        .tree
        .filter(|_| row.interfaces.len() == 1)
        .and_then(|tree| Some((tree.protocol, backer.upcall_translator.trees.port_status(at, now)?)))
        .unwrap_or((Protocol::Stp, Default::default()));
    let (stp, rstp) = match protocol {
        Protocol::Stp => ((status, statistics), Default::default()),
        Protocol::Rstp => (Default::default(), (status, statistics)),
    };
    let mut wanted = RowValues::new("Port", row.uuid);
    for ((status, statistics), columns) in
        [(stp, ["status", "statistics"]), (rstp, ["rstp_status", "rstp_statistics"])]
    {
        wanted.strings(columns[0], &owned(status));
        wanted.set(columns[1], Datum::map(statistics));
    }
    Some(wanted)
}
