//! Dumps of many flows and of the statistics of many ports, sent in parts as fast as the peer reads them.
//!
//! A background thread selects the flows from a published version of the tables. The thread of the sockets makes the parts of the reply,
//! so that a dump of a million flows takes no time of the main loop. The main loop reads the statistics of devices, with one or two
//! system calls for each device, so it reads only some devices per turn.
//!
//! **Bounds**: a dump of flows holds a version of the tables and a pointer to each flow; a dump of ports holds the port numbers. A part is
//! made only while less than 64 KiB of output wait. Counters are read when the part that contains them is made.

use crate::bridge::Bridge;
use crate::flow_parts::take_part;
use crate::outside_bridge::OutsideBridge;
use crate::request_context::{RequestContext, RequestResult};
use crate::stats::{PORTS_PER_TURN, port_stats};
use crate::unfinished::{Dump, RestOfDump};
use ofconn::{ConnId, Parts};
use ofproto::{Criteria, N_TABLES, Rule};
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
            let rules = tables.rules(&criteria).map(|mut rules| {
                rules.reverse();
                rules
            });
            let _ = give.send(rules);
            waker.wake();
        });
        let dump = Dump { request: message.clone(), raw: raw.to_vec(), rest: RestOfDump::Awaited(selected) };
        self.bridge.unfinished.dumps.insert(self.conn, dump);
        Ok(None)
    }
}

/// Sends the next parts of all dumps.
pub(crate) fn run(bridge: &mut Bridge, outside: &mut dyn OutsideBridge, now: Millis) {
    let mut dumps = std::mem::take(&mut bridge.unfinished.dumps);
    dumps.retain(|conn, dump| continue_dump(bridge, outside, *conn, dump, now));
    bridge.unfinished.dumps = dumps;
}

/// Continues one dump. Returns false when it has ended.
fn continue_dump(
    bridge: &mut Bridge,
    outside: &mut dyn OutsideBridge,
    conn: ConnId,
    dump: &mut Dump,
    now: Millis,
) -> bool {
    let Some(session) = bridge.conns.session(conn) else { return false };
    match &mut dump.rest {
        RestOfDump::Awaited(selected) => match selected.try_recv() {
            Ok(Ok(rules)) => {
                session.send_parts(flows(dump.request.clone(), rules));
                dump.rest = RestOfDump::Flows;
                true
            }
            Err(TryRecvError::Empty) => true,
            // The selection failed, or the sender was dropped because the thread has panicked.
            failed => {
                let error = failed.ok().and_then(Result::err).unwrap_or(OfError::BrcEperm);
                session.send_error(error, &dump.raw);
                false
            }
        },
        RestOfDump::Flows => session.is_sending(),
        RestOfDump::Ports(ports) => {
            if bridge.conns.output_len(conn, now) >= OUTPUT_MAX {
                bridge.conns.await_written(conn);
                return true;
            }
            let part = ports.split_off(ports.len().saturating_sub(PORTS_PER_TURN));
            let more = !ports.is_empty();
            let body = Body::PortStatsReply(port_stats(bridge, outside, part.into_iter().rev(), now));
            let reply = Message { more, ..dump.request.reply(body) };
            if let Some(session) = bridge.conns.session(conn) {
                session.send(reply);
            }
            bridge.conns.await_written(conn);
            more
        }
    }
}

/// Generator of the replies. `rules` are in reverse order: the last one is sent first.
fn flows(request: Message, mut rules: Vec<Arc<Rule>>) -> Parts {
    let mut more = true;
    Parts::new(move |now| {
        if !more {
            return None;
        }
        let part = take_part(&mut rules, |rule| rule);
        more = !rules.is_empty();
        let stats = part.map(|r| r.stats(now)).collect();
        Some(Message { more, ..request.reply(Body::FlowStatsReply(stats)) })
    })
}
