//! Dumps of many flows and of the statistics of many ports, sent in parts as the connection takes them. Flows are selected by
//! a thread of its own. Each device is asked for its statistics by a system call or two, so a turn asks few of them.
//!
//! **Bounds**: a dump of flows holds a version of the tables and a pointer to each flow, one of ports their numbers; so much output
//! waits as one part makes. Counters are those of the moment when a part is sent.

use crate::bridge::Bridge;
use crate::host::Host;
use crate::service::{Answer, Service};
use crate::stats::{PORTS, port_stats};
use crate::unfinished::{Dump, Rest};
use ofconn::ConnId;
use ofproto::{Criteria, N_TABLES};
use openflow::{Body, Message, OfError};
use runtime::background;
use std::sync::mpsc::{TryRecvError, sync_channel};
use units::Millis;

/// Dumps of tables with fewer flows than this are made at once.
const LONG: usize = 512;
/// Flows in one part.
const PART: usize = 256;
/// While more bytes than this wait, no part is made.
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
        let dump = Dump { request: message.clone(), raw: raw.to_vec(), rest: Rest::Awaited(selected) };
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

/// Sends the next parts of one dump. False: it has ended.
fn go_on(bridge: &mut Bridge, host: &mut dyn Host, conn: ConnId, dump: &mut Dump, now: Millis) -> bool {
    if let Rest::Awaited(selected) = &dump.rest {
        match selected.try_recv() {
            Ok(Ok(rules)) => dump.rest = Rest::Flows(rules),
            Err(TryRecvError::Empty) => return bridge.conns.session(conn).is_some(),
            // Without a word: the thread has failed.
            failed => {
                let error = failed.ok().and_then(Result::err).unwrap_or(OfError::BrcEperm);
                bridge.conns.session(conn).into_iter().for_each(|s| s.send_error(error, &dump.raw));
                return false;
            }
        }
    }
    while bridge.conns.session(conn).is_some_and(|session| session.output_len() < OUTPUT_MAX) {
        let (body, more, last_of_turn) = match &mut dump.rest {
            Rest::Awaited(_) => break,
            Rest::Flows(rules) => {
                let part = rules.split_off(rules.len().saturating_sub(PART));
                let stats = part.iter().rev().map(|r| r.stats(now)).collect();
                (Body::FlowStatsReply(stats), !rules.is_empty(), false)
            }
            Rest::Ports(ports) => {
                let part = ports.split_off(ports.len().saturating_sub(PORTS));
                let stats = port_stats(bridge, host, part.into_iter().rev(), now);
                (Body::PortStatsReply(stats), !ports.is_empty(), true)
            }
        };
        let reply = Message { more, ..dump.request.reply(body) };
        bridge.conns.session(conn).into_iter().for_each(|session| session.send(&reply));
        if !more {
            return false;
        }
        if last_of_turn {
            break;
        }
    }
    bridge.conns.session(conn).is_some()
}
