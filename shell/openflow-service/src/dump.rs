//! Dumps of many flows: selected by another thread, sent in parts as the connection takes them.
//!
//! **Bounds**: a dump holds a version of the tables and a pointer to each flow; at most one part beyond [`OUTPUT_MAX`]
//! waits to be sent. Counters are those of the time when a part is sent.

use crate::bridge::Bridge;
use crate::service::{Answer, Service};
use crate::unfinished::{Dump, Rules, Unfinished};
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
        let dump = Dump { request: message.clone(), raw: raw.to_vec(), rules: Rules::Awaited(selected) };
        self.bridge.unfinished.dumps.insert(self.conn, dump);
        Ok(None)
    }
}

/// Sends the next parts.
pub(crate) fn run(bridge: &mut Bridge, now: Millis) {
    let Bridge { conns, unfinished: Unfinished { dumps, .. }, .. } = bridge;
    dumps.retain(|conn, dump| {
        let Some(session) = conns.session(*conn) else { return false };
        if let Rules::Awaited(selected) = &dump.rules {
            match selected.try_recv().or_else(|e| match e {
                TryRecvError::Empty => Err(e),
                // The thread has failed.
                TryRecvError::Disconnected => Ok(Err(OfError::BrcEperm)),
            }) {
                Ok(Ok(rules)) => dump.rules = Rules::Known(rules),
                Ok(Err(error)) => {
                    session.send_error(error, &dump.raw);
                    return false;
                }
                Err(_) => return true,
            }
        }
        let Rules::Known(rules) = &mut dump.rules else { return true };
        while session.output_len() < OUTPUT_MAX {
            let part = rules.split_off(rules.len().saturating_sub(PART));
            let stats = part.iter().rev().map(|r| r.stats(now)).collect();
            let more = !rules.is_empty();
            session.send(&Message { more, ..dump.request.reply(Body::FlowStatsReply(stats)) });
            if !more {
                return false;
            }
        }
        true
    });
}
