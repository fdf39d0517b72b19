//! Messages to controllers about changed tables.

use crate::bridge::Bridge;
use crate::monitor;
use crate::table;
use ofconn::ConnId;
use ofproto::TableChanges;
use openflow::Xid;
use units::Millis;

/// Sends flow monitor updates, table-status messages and flow-removed messages. `own`: connection and transaction id of the request that
/// caused the changes.
pub fn announce(bridge: &mut Bridge, changes: &TableChanges, own: Option<(ConnId, Xid)>, now: Millis) {
    monitor::report(bridge, changes, own, now);
    table::report_vacancy(bridge, changes);
    for removed in changes.flows_removed(now) {
        bridge.conns.send_flow_removed(&removed);
    }
}

/// Removes all groups, all meters, and all flows except those of the switch itself; announces the changes.
pub fn flush(bridge: &mut Bridge, now: Millis) {
    let changes = bridge.ofproto.flush(now);
    announce(bridge, &changes, None, now);
}
