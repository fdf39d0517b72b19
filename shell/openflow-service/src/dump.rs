//! Dumps of many flows and of the statistics of many ports, sent in parts as fast as the peer reads them.
//!
//! A background thread selects the flows from a published version of the tables. The thread of the sockets makes the parts of the reply,
//! so that a dump of a million flows takes no time of the main loop. The main loop reads the statistics of devices, with one or two
//! system calls for each device, so it reads only some devices per turn.
//!
//! **Bounds**: a dump of flows holds a version of the tables and a pointer to each flow; a dump of ports holds the port numbers. A part is
//! made only while less than 64 KiB of output wait. Counters are read when the part that contains them is made.

use crate::bridge::Bridge;
use crate::long_list::LongList;
use crate::request_context::{RequestContext, RequestResult};
use crate::stats::{PORTS_PER_TURN, port_stats};
use crate::switch_access::SwitchAccess;
use crate::unfinished::Dump;
use ofconn::ConnId;
use ofproto::{Criteria, N_TABLES, Rule};
use openflow::stats::FlowStats;
use openflow::{Body, Message, OfError};
use runtime::background;
use std::sync::Arc;
use std::sync::mpsc::{TryRecvError, sync_channel};
use units::Millis;

/// If the tables have fewer flows than this, a dump is made at once on the main thread.
const BACKGROUND_FLOWS: usize = 512;
/// While this many bytes or more wait to be written, no part of a dump of ports is made.
const OUTPUT_MAX: usize = 64 << 10;

impl RequestContext<'_> {
    /// `OFPMP_FLOW`. Returns no reply if there are many flows: the reply is then sent in parts.
    pub(crate) fn flow_stats(&mut self, criteria: Criteria, message: &Message, raw: &[u8]) -> RequestResult {
        self.outside.fold_statistics();
        let ofproto = &mut self.bridge.ofproto;
        let flows: usize =
            (0..N_TABLES as u8).filter_map(|t| ofproto.table(t)).map(|t| t.classifier().len()).sum();
        let Some(waker) = self.outside.waker().filter(|_| flows >= BACKGROUND_FLOWS) else {
            return Ok(Some(Body::FlowStatsReply(ofproto.flow_stats(&criteria, self.now)?)));
        };
        let tables = ofproto.publish();
        let (give, selected) = sync_channel(1);
        background::run(move || {
            let _ = give.send(tables.rules(&criteria));
            waker.wake();
        });
        let dump = Dump::Awaited { request: message.clone(), raw: raw.to_vec(), selected };
        self.bridge.unfinished.dumps.insert(self.conn, dump);
        Ok(None)
    }
}

/// Sends the next parts of all dumps.
pub(crate) fn run(bridge: &mut Bridge, outside: &mut dyn SwitchAccess, now: Millis) {
    let mut dumps = std::mem::take(&mut bridge.unfinished.dumps);
    dumps.retain(|conn, dump| continue_dump(bridge, outside, *conn, dump, now));
    bridge.unfinished.dumps = dumps;
}

/// Continues one dump. Returns false when it has ended.
fn continue_dump(
    bridge: &mut Bridge,
    outside: &mut dyn SwitchAccess,
    conn: ConnId,
    dump: &mut Dump,
    now: Millis,
) -> bool {
    let Some(session) = bridge.conns.session(conn) else { return false };
    match dump {
        Dump::Awaited { request, raw, selected } => match selected.try_recv() {
            Ok(Ok(rules)) => {
                session.send_parts(flows(rules).parts(request.clone()));
                *dump = Dump::Sent;
                true
            }
            Err(TryRecvError::Empty) => true,
            // The selection failed, or the sender was dropped because the thread has panicked.
            failed => {
                let error = failed.ok().and_then(Result::err).unwrap_or(OfError::BrcEperm);
                session.send_error(error, raw);
                false
            }
        },
        Dump::Sent => session.is_sending(),
        Dump::Ports { request, rest: ports } => {
            if bridge.conns.output_len(conn, now) >= OUTPUT_MAX {
                bridge.conns.await_written(conn);
                return true;
            }
            let part = ports.split_off(ports.len().saturating_sub(PORTS_PER_TURN));
            let more = !ports.is_empty();
            let body = Body::PortStatsReply(port_stats(bridge, outside, part.into_iter().rev(), now));
            let reply = Message { more, ..request.reply(body) };
            if let Some(session) = bridge.conns.session(conn) {
                session.send(reply);
            }
            bridge.conns.await_written(conn);
            more
        }
    }
}

/// The reply that lists these flows.
fn flows(rules: Vec<Arc<Rule>>) -> LongList<Arc<Rule>, FlowStats> {
    LongList {
        items: rules,
        actions: |rule| rule.actions.len(),
        entry: |rule, now| rule.stats(now),
        body: Body::FlowStatsReply,
    }
}
