//! Dumps of many flows and of the statistics of many ports, sent in parts as the connection takes them.
//!
//! Flows are selected from a published version of the tables by a thread of its own. Their parts are made on the thread of the
//! sockets, so that a dump of a million flows costs the main loop nothing. Devices are asked for their statistics by the main loop,
//! by a system call or two each, so a turn asks few of them.
//!
//! **Bounds**: a dump of flows holds a version of the tables and a pointer to each flow, one of ports their numbers; so much output
//! waits as one part makes. Counters are those of the moment when a part is sent.

use crate::bridge::Bridge;
use crate::host::Host;
use crate::service::{Answer, Service};
use crate::stats::{PORTS, port_stats};
use crate::unfinished::{Dump, RestOfDump};
use ofconn::{ConnId, Parts};
use ofproto::{Criteria, N_TABLES, Rule};
use openflow::{Body, Message, OfError};
use runtime::background;
use std::sync::Arc;
use std::sync::mpsc::{TryRecvError, sync_channel};
use units::Millis;

/// Dumps of tables with fewer flows than this are made at once.
const LONG: usize = 512;
/// Flows in one part.
const PART: usize = 256;
/// While more bytes than this wait, no ports are asked.
const OUTPUT_MAX: usize = 64 << 10;

impl Service<'_> {
    /// `OFPMP_FLOW`. There is no reply yet if the dump takes several iterations.
    pub(crate) fn flow_stats(&mut self, criteria: Criteria, message: &Message, raw: &[u8]) -> Answer {
        self.host.fold_statistics();
        let ofproto = &mut self.bridge.ofproto;
        let flows: usize =
            (0..N_TABLES as u8).filter_map(|t| ofproto.table(t)).map(|t| t.classifier().len()).sum();
        let Some(waker) = self.host.waker().filter(|_| flows >= LONG) else {
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

/// Sends the next parts.
pub(crate) fn run(bridge: &mut Bridge, host: &mut dyn Host, now: Millis) {
    let mut dumps = std::mem::take(&mut bridge.unfinished.dumps);
    dumps.retain(|conn, dump| go_on(bridge, host, *conn, dump, now));
    bridge.unfinished.dumps = dumps;
}

/// Goes on with one dump. False: it has ended.
fn go_on(bridge: &mut Bridge, host: &mut dyn Host, conn: ConnId, dump: &mut Dump, now: Millis) -> bool {
    let Some(session) = bridge.conns.session(conn) else { return false };
    match &mut dump.rest {
        RestOfDump::Awaited(selected) => match selected.try_recv() {
            Ok(Ok(rules)) => {
                session.send_parts(flows(dump.request.clone(), rules));
                dump.rest = RestOfDump::Flows;
                true
            }
            Err(TryRecvError::Empty) => true,
            // Without a word: the thread has failed.
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
            let part = ports.split_off(ports.len().saturating_sub(PORTS));
            let more = !ports.is_empty();
            let body = Body::PortStatsReply(port_stats(bridge, host, part.into_iter().rev(), now));
            let reply = Message { more, ..dump.request.reply(body) };
            if let Some(session) = bridge.conns.session(conn) {
                session.send(reply);
            }
            bridge.conns.await_written(conn);
            more
        }
    }
}

/// The replies with these flows, the last first.
fn flows(request: Message, mut rules: Vec<Arc<Rule>>) -> Parts {
    let mut more = true;
    Parts::new(move |now| {
        if !more {
            return None;
        }
        let part = rules.split_off(rules.len().saturating_sub(PART));
        more = !rules.is_empty();
        let stats = part.iter().rev().map(|r| r.stats(now)).collect();
        Some(Message { more, ..request.reply(Body::FlowStatsReply(stats)) })
    })
}
