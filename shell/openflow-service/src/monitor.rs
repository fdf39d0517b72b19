//! Flow monitors: requests of connections, and updates to them.
//!
//! The flows that exist when a monitor is added, and those that were missed during a pause, may be many. They are sent in parts, as fast as
//! the peer reads them; later updates of the connection follow after the last part.
//!
//! **Back pressure**: if the peer does not read, updates are paused when more than 128 KiB of output wait, and resumed when all output
//! is written.

use crate::bridge::Bridge;
use crate::long_list::LongList;
use crate::request_context::{RequestContext, RequestResult};
use crate::requests::hold_requests;
use crate::unfinished::Dump;
use ofconn::ConnId;
use ofproto::{ReportedFlow, TableChanges};
use openflow::monitor::{FlowMonitorRequest, FlowUpdate};
use openflow::{Body, Message, Xid};
use units::Millis;

/// Updates to a connection are paused if more bytes than this wait to be written, as in Open vSwitch.
const PAUSE_OUTPUT: usize = 128 * 1024;

impl RequestContext<'_> {
    /// Adds, changes or removes monitors. Returns no reply if the new monitors report many flows: the reply is then sent in parts.
    pub(crate) fn flow_monitor(
        &mut self,
        requests: &[FlowMonitorRequest],
        message: &Message,
    ) -> RequestResult {
        let bridge = &mut *self.bridge;
        let flows = bridge.monitors.entry(self.conn).or_default().request(requests, &bridge.ofproto)?;
        self.list(reported(flows), message)
    }

    pub(crate) fn cancel_monitor(&mut self, id: u32) -> RequestResult {
        self.bridge.monitors.entry(self.conn).or_default().cancel(id)?;
        Ok(None)
    }
}

/// The reply that reports these flows.
fn reported(flows: Vec<ReportedFlow>) -> LongList<ReportedFlow, FlowUpdate> {
    LongList {
        items: flows,
        actions: |flow| flow.rule().actions.len(),
        entry: |flow, _| flow.update(),
        body: Body::FlowMonitorReply,
    }
}

/// Sends changes to the connections that monitor them. `own`: connection and transaction id of the request that caused the changes.
pub fn report(bridge: &mut Bridge, changes: &TableChanges, own: Option<(ConnId, Xid)>, now: Millis) {
    for (id, monitors) in &mut bridge.monitors {
        let xid = own.filter(|(conn, _)| conn == id).map(|(_, xid)| xid);
        let updates = monitors.report(changes, xid);
        let Some(session) = bridge.conns.session(*id).filter(|_| !updates.is_empty()) else { continue };
        session.send_unsolicited(Body::FlowMonitorReply(updates));
        if !monitors.is_paused() && bridge.conns.output_len(*id, now) > PAUSE_OUTPUT {
            monitors.pause(&bridge.ofproto);
            bridge.conns.session(*id).into_iter().for_each(|s| s.send_unsolicited(Body::FlowMonitorPaused));
        }
    }
}

/// Removes the monitors of closed connections, and resumes paused monitors whose output is written. Called after output has been written.
/// Returns whether a monitor was resumed, and so has output to write.
pub fn run(bridge: &mut Bridge, now: Millis) -> bool {
    let Bridge { monitors, conns, ofproto, unfinished, .. } = bridge;
    let (mut any, mut is_long) = (false, false);
    monitors.retain(|id, monitors| {
        let Some(session) = conns.session(*id) else { return false };
        let is_written = session.output_len() == 0;
        if monitors.is_paused() && is_written {
            let missed = reported(monitors.resume(ofproto));
            if !missed.is_short() {
                // Replies to later requests must not overtake the updates, so these requests wait.
                let request = Message::new(session.version(), Xid(0), Body::FlowMonitorReply(Vec::new()));
                session.send_parts(missed.parts(request));
                unfinished.dumps.entry(*id).or_insert(Dump::Sent);
                is_long = true;
            } else if !missed.items.is_empty() {
                session.send_unsolicited(missed.whole(now));
            }
            session.send_unsolicited(Body::FlowMonitorResumed);
            any = true;
        } else if monitors.is_paused() {
            conns.await_written(*id);
        }
        !monitors.is_empty()
    });
    if is_long {
        hold_requests(bridge);
    }
    any
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{NOW, TestBridge, flow};
    use flow::FieldId;
    use openflow::monitor::MonitorFlags;
    use openflow::{Version, action::Action};
    use units::OfPort;

    fn add_flow(test: &mut TestBridge, number: u16, actions: usize) {
        let mut fm = flow(1, vec![Action::output(OfPort(2)); actions]);
        fm.matching.set(FieldId::Metadata, number.into());
        let changes = test.bridge.ofproto.handle_flow_mod(&fm, NOW).unwrap();
        report(&mut test.bridge, &changes, None, NOW);
    }

    fn request() -> Body {
        let flags =
            MonitorFlags { initial: true, add: true, modify: true, instructions: true, ..Default::default() };
        Body::FlowMonitorRequest(vec![FlowMonitorRequest { flags, ..Default::default() }])
    }

    #[test]
    fn updates_follow_the_parts_of_the_first_report() {
        let mut test = TestBridge::new("monitor", Version::V14);
        (0..5000).for_each(|number| add_flow(&mut test, number, 20));
        let mut bodies = test.ask(request());
        add_flow(&mut test, 5000, 20);
        bodies.extend(test.ask(Body::BarrierRequest));
        while bodies.last() != Some(&Body::BarrierReply) {
            let waiting = test.bridge.conns.sessions().map(|(_, s)| s.output_len()).sum::<usize>();
            assert!(waiting < 1 << 20, "{waiting} bytes wait");
            bodies.extend(test.turn());
        }
        let updates: Vec<FlowUpdate> = bodies
            .into_iter()
            .filter_map(|body| if let Body::FlowMonitorReply(updates) = body { Some(updates) } else { None })
            .flatten()
            .collect();
        let number = |update: &FlowUpdate| match update {
            FlowUpdate::Initial(event) if event.actions.len() == 20 => {
                (true, FieldId::Metadata.get(&event.matching.flow))
            }
            FlowUpdate::Added(event) => (false, FieldId::Metadata.get(&event.matching.flow)),
            other => panic!("{other:?}"),
        };
        let expected: Vec<(bool, u128)> = (0..=5000).map(|i| (i < 5000, i)).collect();
        assert_eq!(updates.iter().map(number).collect::<Vec<_>>(), expected);
    }

    /// The last part may be written late in a turn. Then the next turn must not wait for an event to execute the next request.
    #[test]
    fn the_end_of_a_long_reply_is_noticed() {
        let mut test = TestBridge::new("monitor-end", Version::V14);
        (0..500).for_each(|number| add_flow(&mut test, number, 1));
        test.ask(request());
        while test.bridge.conns.sessions().any(|(_, s)| s.is_sending()) {
            assert!(!test.bridge.can_continue());
            test.bridge.conns.run(NOW);
            test.bridge.conns.flush(NOW);
            test.replies();
        }
        assert!(test.bridge.can_continue());
        test.turn();
        assert!(!test.bridge.is_at_work());
    }

    #[test]
    fn what_was_missed_during_a_pause_comes_in_parts_before_the_end_of_the_pause() {
        let mut test = TestBridge::new("monitor-pause", Version::V14);
        test.ask(request());
        for number in 0..5000 {
            add_flow(&mut test, number, 20);
        }
        let mut bodies = Vec::new();
        while bodies.last() != Some(&Body::BarrierReply) {
            if run(&mut test.bridge, NOW) {
                bodies.extend(test.ask(Body::BarrierRequest));
            }
            bodies.extend(test.turn());
        }
        let position = |body: Body| bodies.iter().position(|b| *b == body);
        let (paused, resumed) = (position(Body::FlowMonitorPaused), position(Body::FlowMonitorResumed));
        assert_eq!(resumed, Some(bodies.len() - 2), "before the reply to the barrier");
        assert!(paused.is_some_and(|at| at < bodies.len() - 10), "{paused:?} of {}", bodies.len());
        let count = |body: &Body| if let Body::FlowMonitorReply(updates) = body { updates.len() } else { 0 };
        assert_eq!(bodies.iter().map(count).sum::<usize>(), 5000);
    }
}
