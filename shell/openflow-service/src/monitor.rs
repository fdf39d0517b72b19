//! Flow monitors: requests of connections, and updates to them.
//!
//! **Back pressure**: if the peer does not read, updates are paused when more than 128 KiB of output wait, and resumed when all output
//! is written.

use crate::bridge::Bridge;
use crate::request_context::{RequestContext, RequestResult};
use ofconn::ConnId;
use ofproto::TableChanges;
use openflow::monitor::FlowMonitorRequest;
use openflow::{Body, Xid};
use units::Millis;

/// Updates to a connection are paused if more bytes than this wait to be written, as in Open vSwitch.
const PAUSE_OUTPUT: usize = 128 * 1024;

impl RequestContext<'_> {
    pub(crate) fn flow_monitor(&mut self, requests: &[FlowMonitorRequest]) -> RequestResult {
        let bridge = &mut *self.bridge;
        let updates = bridge.monitors.entry(self.conn).or_default().request(requests, &bridge.ofproto)?;
        Ok(Some(Body::FlowMonitorReply(updates)))
    }

    pub(crate) fn cancel_monitor(&mut self, id: u32) -> RequestResult {
        self.bridge.monitors.entry(self.conn).or_default().cancel(id)?;
        Ok(None)
    }
}

/// Sends changes to the connections that monitor them. `own`: connection and transaction id of the request that caused the changes.
pub fn report(bridge: &mut Bridge, changes: &TableChanges, own: Option<(ConnId, Xid)>, now: Millis) {
    for (id, monitors) in &mut bridge.monitors {
        let xid = own.filter(|(conn, _)| conn == id).map(|(_, xid)| xid);
        let updates = monitors.report(changes, xid);
        let Some(session) = bridge.conns.session(*id).filter(|_| !updates.is_empty()) else { continue };
        session.send_own(Body::FlowMonitorReply(updates));
        if !monitors.is_paused() && bridge.conns.output_len(*id, now) > PAUSE_OUTPUT {
            monitors.pause(&bridge.ofproto);
            bridge.conns.session(*id).into_iter().for_each(|s| s.send_own(Body::FlowMonitorPaused));
        }
    }
}

/// Removes the monitors of closed connections, and resumes paused monitors whose output is written. Called after output has been written.
/// Returns whether a monitor was resumed, and so has output to write.
pub fn run(bridge: &mut Bridge) -> bool {
    let Bridge { monitors, conns, ofproto, .. } = bridge;
    let mut any = false;
    monitors.retain(|id, monitors| {
        let Some(session) = conns.session(*id) else { return false };
        let is_written = session.output_len() == 0;
        if monitors.is_paused() && is_written {
            let missed = monitors.resume(ofproto);
            if !missed.is_empty() {
                session.send_own(Body::FlowMonitorReply(missed));
            }
            session.send_own(Body::FlowMonitorResumed);
            any = true;
        } else if monitors.is_paused() {
            conns.await_written(*id);
        }
        !monitors.is_empty()
    });
    any
}
