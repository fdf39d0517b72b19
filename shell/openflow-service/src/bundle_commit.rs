//! The commit of a bundle.
//!
//! All changes of the bundle are tried on a copy of the tables. Many changes are tried on another thread; meanwhile the main
//! loop serves other bridges, but nothing else changes the tables of this bridge. Then the tables are replaced at
//! once. Packet-outs are sent afterwards; each uses the tables that the messages before it in the bundle have produced.

use crate::bundle_messages::{BundleMessages, MessageContent};
use crate::reclaim;
use crate::request_context::{RequestContext, RequestResult};
use crate::unfinished::{AfterCommit, Commit, QuotedRequests, TrialResult};
use ofproto::Bundle;
use openflow::flow_mod::FlowCommand;
use openflow::group::GroupCommand;
use openflow::port::PortMod;
use openflow::session::{BundleControl, BundleControlType, bundle_flags};
use openflow::{Body, Message, OfError};
use runtime::background;
use std::collections::BTreeMap;
use std::sync::mpsc::{TryRecvError, sync_channel};
use units::Millis;

/// Bundles with fewer messages than this are tried on the main thread, unless a message may change many flows.
const BACKGROUND_MESSAGES: usize = 500;
/// A message that may change all flows is tried on another thread if the tables have at least this many flows: deleting or changing them
/// takes as long as [`BACKGROUND_MESSAGES`] messages.
const BACKGROUND_FLOWS: usize = 10_000;

/// A trial: the copy of the tables and the messages that are executed on it.
struct Trial {
    bundle: Bundle,
    messages: BundleMessages,
    /// Errors of refused port mods, by position in the bundle.
    refused: BTreeMap<usize, OfError>,
    now: Millis,
}

impl Trial {
    /// Executes all messages in order on the copy; the first message that fails ends the trial.
    fn run(mut self) -> TrialResult {
        let mut later = Vec::new();
        let mut n = 0;
        for mut piece in std::mem::take(&mut self.messages).into_pieces() {
            for (at, content) in piece.take_messages().into_iter().enumerate() {
                self.step(n, content, &mut later).map_err(|e| (e, piece.request(at).to_vec()))?;
                n += 1;
            }
        }
        Ok((self.bundle, later))
    }

    fn step(
        &mut self,
        i: usize,
        content: MessageContent,
        later: &mut Vec<AfterCommit>,
    ) -> Result<(), OfError> {
        match content {
            MessageContent::Flow(request) => {
                let command = request.command();
                self.bundle.flow_mod(request, self.now)?;
                later.push(AfterCommit::Count(command));
            }
            MessageContent::Group(gm) => self.bundle.group_mod(&gm, self.now)?,
            MessageContent::Meter(mm) => self.bundle.meter_mod(&mm, self.now)?,
            MessageContent::Port(pm) => {
                self.refused.remove(&i).map_or(Ok(()), Err)?;
                later.push(AfterCommit::Port(pm));
            }
            MessageContent::Packet(po) => {
                self.bundle.check_actions(&po.actions)?;
                later.push(AfterCommit::Packet(po, self.bundle.tables()));
            }
        }
        Ok(())
    }
}

impl RequestContext<'_> {
    /// Commits a bundle, which is removed regardless of the result.
    pub(crate) fn commit(&mut self, control: &BundleControl, message: &Message, raw: &[u8]) -> RequestResult {
        let bundle = self.session()?.bundles.remove(&control.bundle).ok_or(OfError::BfcBadId)?;
        if bundle.flags != control.flags {
            return Err(OfError::BfcBadFlags);
        }
        let opened = bundle.request.clone();
        let mut messages = *bundle.messages.downcast::<BundleMessages>().map_err(|_| OfError::BfcUnknown)?;
        messages.leave_totals();
        let quoted = QuotedRequests { bundle: control.bundle, committed: raw.to_vec(), opened };
        let is_long = messages.len() >= BACKGROUND_MESSAGES
            || self.bridge.ofproto.flow_count() >= BACKGROUND_FLOWS
                && messages.contents().any(may_change_many);
        let waker = self.outside.waker().filter(|_| is_long);
        let trial = self.trial(messages, bundle.flags);
        let Some(waker) = waker else {
            return self.finish(trial.run(), &quoted);
        };
        let (give, tried) = sync_channel(1);
        background::run(move || {
            // Fails if the bridge was removed; then no session waits for the result.
            let _ = give.send(trial.run());
            waker.wake();
        });
        self.bridge.unfinished.commit =
            Some(Commit { conn: self.conn, message: message.clone(), quoted, tried });
        Ok(None)
    }

    fn trial(&mut self, messages: BundleMessages, flags: u16) -> Trial {
        let atomic = flags & bundle_flags::ATOMIC != 0;
        let refusal = |pm: &PortMod| match atomic {
            // Port changes cannot be undone.
            true => Some(OfError::BfcMsgFailed),
            false => self.check_port_mod(pm).err(),
        };
        let refused = messages.contents().enumerate().filter_map(|(i, content)| match content {
            MessageContent::Port(pm) => Some((i, refusal(pm)?)),
            _ => None,
        });
        let refused = refused.collect();
        Trial { bundle: self.bridge.ofproto.begin(), messages, refused, now: self.now }
    }

    /// Replaces the tables with the result of a successful trial; reports the error of a failed trial.
    fn finish(&mut self, tried: TrialResult, quoted: &QuotedRequests) -> RequestResult {
        let before = self.bridge.ofproto.publish();
        let tried = tried.and_then(|(bundle, later)| {
            let changes = self.bridge.ofproto.commit(bundle, self.now);
            Ok((changes.map_err(|e| (e, quoted.opened.clone()))?, later))
        });
        let (changes, later) = match tried {
            Ok(done) => done,
            Err((error, about)) => {
                self.session()?.send_error(error, &about);
                return Err(OfError::BfcMsgFailed);
            }
        };
        self.report_table_changes(&changes);
        let n = changes.flows.len();
        // The trial has freed the messages.
        reclaim::note_freed(n);
        reclaim::drop_in_background(n, changes);
        reclaim::drop_when_unshared(n, before);
        let now = self.now;
        for step in later {
            match step {
                AfterCommit::Count(command) => {
                    self.bridge
                        .conns
                        .session(self.conn)
                        .into_iter()
                        .for_each(|s| s.count_flow_mod(command, now));
                }
                AfterCommit::Port(pm) => self.apply_port_mod(&pm),
                AfterCommit::Packet(po, tables) => self.outside.packet_out(&po, Some(tables)),
            }
        }
        let kind = BundleControlType::CommitReply;
        Ok(Some(Body::BundleControl(BundleControl { bundle: quoted.bundle, kind, flags: 0 })))
    }
}

/// Returns whether a message may change more than one flow.
fn may_change_many(content: &MessageContent) -> bool {
    match content {
        MessageContent::Flow(request) => {
            matches!(request.command(), FlowCommand::Modify | FlowCommand::Delete)
        }
        // Flows that use a deleted group are deleted, too.
        MessageContent::Group(gm) => gm.command == GroupCommand::Delete,
        MessageContent::Meter(_) | MessageContent::Port(_) | MessageContent::Packet(_) => false,
    }
}

/// Completes a commit whose trial runs on another thread. Returns false if the trial is not complete. With `wait`, waits for the trial.
pub(crate) fn continue_commit(context: &mut RequestContext<'_>, commit: Commit, wait: bool) -> bool {
    let tried = match if wait { commit.tried.recv().map_err(Into::into) } else { commit.tried.try_recv() } {
        Ok(tried) => tried,
        Err(TryRecvError::Empty) => {
            context.bridge.unfinished.commit = Some(commit);
            return false;
        }
        // Only in tests: in the daemon a panic of the thread ends the process. The tables have not changed.
        Err(TryRecvError::Disconnected) => Err((OfError::BfcUnknown, commit.quoted.opened.clone())),
    };
    let answer = context.finish(tried, &commit.quoted);
    context.answer(answer, &commit.message, &commit.quoted.committed);
    true
}
