//! Translates one list of actions, in order.
//!
//! An action that this switch does not support makes the packet's translation fail, so that the failure is visible
//! and counted. No action is ignored silently.

use crate::changed::may_change;
use crate::fields::look_at;
use crate::frozen::Step;
use crate::lookup::Search;
use crate::messages::report;
use crate::outcome::{Credit, Effect, FinTimeout};
use crate::trace::Kind;
use crate::walk::Walk;
use dpif::DpAction;
use flow::FieldId;
use openflow::action::Action;
use std::sync::Arc;
use units::OfPort;

/// How the list continues after an action.
pub(crate) enum Then {
    /// With the next action.
    Next,
    /// The rest of the list is skipped.
    Stop,
    /// After recirculation, starting with this action.
    Again,
    /// After recirculation, with the next action.
    Later,
}

impl Walk<'_> {
    /// Translates a list of actions. `last`: nothing follows the list. Returns false if an action ended the list
    /// early.
    pub(crate) fn actions(&mut self, actions: &[Action], last: bool, in_bucket: bool) -> bool {
        if actions.is_empty() {
            report!(self, Action, "drop");
        }
        for (i, action) in actions.iter().enumerate() {
            if !self.spend(1) {
                return false;
            }
            self.freeze_for_mpls(action);
            if self.progress.exit {
                if self.freezing.active {
                    self.freeze_rest(&actions[i..]);
                }
                return true;
            }
            self.forget_mirrored(action);
            self.report_actions(Kind::Action, "", std::slice::from_ref(action));
            if let Action::CheckPktLarger { len, dst } = action {
                if self.check_pkt_larger(*len, *dst, &actions[i + 1..]) {
                    return true;
                }
                continue;
            }
            let final_one = last && i + 1 == actions.len() && self.pipeline.action_set.is_empty();
            let then = match may_change(action) {
                Some(words) => {
                    let then = self.action(action, final_one, in_bucket);
                    self.doubt_words(words);
                    then
                }
                None => {
                    self.doubt_all_words();
                    let then = self.action(action, final_one, in_bucket);
                    self.doubt_all_words();
                    then
                }
            };
            let rest = match then {
                Then::Next => continue,
                Then::Stop => return false,
                Then::Again => &actions[i..],
                Then::Later => &actions[i + 1..],
            };
            if self.freezing.active && self.out.error.is_none() {
                self.freeze_rest(rest);
            }
            return true;
        }
        true
    }

    fn action(&mut self, action: &Action, last: bool, in_bucket: bool) -> Then {
        match action {
            Action::Output { port, max_len } => self.output(*port, *max_len, last, in_bucket),
            Action::OutputReg { src, max_len } => {
                let port = src.get(&self.flow);
                match u16::try_from(port) {
                    Ok(number) => {
                        report!(self, Detail, "output port is {port}");
                        look_at(*src, &mut self.mask);
                        self.output(OfPort(number), *max_len, last, in_bucket);
                    }
                    Err(_) => report!(self, Warn, "output port {port} is out of range"),
                }
            }
            Action::OutputTrunc { port, max_len } => self.output_cut(*port, *max_len, last, in_bucket),
            Action::Controller(c) => {
                if c.pause {
                    self.freezing.pause = Some(c.clone());
                    self.freeze();
                    return Then::Later;
                }
                self.controller(c);
            }
            Action::Group(id) => {
                if !self.group(*id, last) {
                    return Then::Stop;
                }
            }
            Action::Enqueue { port, queue } => self.enqueue(*port, *queue, last),
            Action::Bundle(b) => self.bundle_action(b, last, in_bucket),
            Action::Resubmit { port, table, with_ct } => {
                let port =
                    port.filter(|p| *p != OfPort::IN_PORT).map_or(self.flow.in_port, |p| u32::from(p.0));
                let table = table.unwrap_or(self.place.table_id);
                let internal = self.place.rule.as_ref().is_some_and(|r| r.table == ofproto::TABLE_INTERNAL);
                self.table(Search {
                    may_packet_in: internal,
                    honor_miss: internal,
                    with_ct: *with_ct,
                    last,
                    ..Search::first(port, table)
                });
                return self.after_table();
            }
            Action::GotoTable(table) => {
                self.table(Search { last, ..Search::first(self.flow.in_port, *table) });
                return self.after_table();
            }
            Action::Clone(list) => self.isolated(list, last),
            Action::Ct(ct) => self.conntrack(ct, last),
            Action::DecTtl { ids, .. } => {
                self.mask.nw_ttl = u8::MAX;
                self.mask.nw_proto = u8::MAX;
                if self.dec_ttl(ids) {
                    return Then::Stop;
                }
            }
            Action::DecMplsTtl => {
                if self.dec_mpls_ttl() {
                    return Then::Stop;
                }
            }
            Action::DecNshTtl => {
                if self.dec_nsh_ttl() {
                    return Then::Stop;
                }
            }
            Action::Encap(encap) => self.encap(encap),
            Action::Decap { packet_type } => {
                if self.decap(*packet_type) {
                    self.freeze();
                    return Then::Later;
                }
            }
            Action::Exit => {
                self.progress.exit = true;
                return Then::Stop;
            }
            Action::DebugRecirc => {
                self.freeze();
                return Then::Later;
            }
            _ => return self.header_action(action),
        }
        self.after_freezing()
    }

    /// Translates the other actions, including unsupported ones.
    pub(crate) fn other_action(&mut self, action: &Action) -> Then {
        match action {
            Action::Learn(learn) => self.learn(learn),
            Action::Multipath(mp) => self.multipath(mp),
            Action::FinTimeout { idle, hard } => self.fin_timeout(*idle, *hard),
            Action::ClearActions => self.clear_actions(),
            Action::WriteActions(list) if !self.spend(list.len()) => {}
            Action::WriteActions(list) => {
                self.write_actions(list);
                self.report_action_set("is");
            }
            Action::Conjunction { .. } => self.error(format_args!("executing no-op conjunction action")),
            // A deleted meter passes all packets until its flows are deleted, too.
            Action::Meter(id) => self.out.actions.extend(self.meter(*id).map(DpAction::Meter)),
            Action::Note(_) => {}
            Action::DebugSlow => self.out.slow |= dpif::SlowReason::ACTION,
            Action::CtClear if !self.packet_state.conntracked => {}
            Action::CtClear => {
                self.clear_conntrack();
                self.out.actions.push(dpif::DpAction::CtClear);
            }
            // Part of `ct`.
            Action::Nat(_) => {}
            Action::Sample(sample) => self.sample(sample),
            Action::DeleteField(sf) => self.delete_field(sf.field),
            other => {
                debug_assert!(false, "{other:?} is done elsewhere");
            }
        }
        Then::Next
    }

    /// The rule that was found has been executed: it must not be executed again after recirculation.
    fn after_table(&self) -> Then {
        if self.progress.exit { Then::Later } else { Then::Next }
    }

    /// An action that froze the walk is executed after recirculation, except for its deferred part.
    fn after_freezing(&self) -> Then {
        match self.progress.exit && self.freezing.active {
            true if self.freezing.steps.is_empty() => Then::Again,
            true => Then::Later,
            false => Then::Next,
        }
    }

    fn freeze_rest(&mut self, actions: &[Action]) {
        for action in actions {
            let tells_rule = match action {
                Action::Output { .. }
                | Action::OutputReg { .. }
                | Action::OutputTrunc { .. }
                | Action::Group(_)
                | Action::Controller(_)
                | Action::DecTtl { .. }
                | Action::DecMplsTtl
                | Action::DecNshTtl => true,
                Action::Resubmit { table, .. } => table.is_none(),
                _ => false,
            };
            if tells_rule {
                self.freeze_unroll();
            }
            // Instructions are replaced by equivalent actions.
            let step = match action {
                Action::GotoTable(table) => {
                    Action::Resubmit { port: None, table: Some(*table), with_ct: false }
                }
                Action::WriteMetadata { value, mask } => Action::SetField {
                    field: FieldId::Metadata,
                    value: u128::from(*value),
                    mask: u128::from(*mask),
                },
                other => other.clone(),
            };
            self.freezing.steps.push(Step::Do(step));
        }
    }

    fn freeze_unroll(&mut self) {
        let now = Step::Unroll { table: self.place.table_id, cookie: self.place.rule_cookie };
        let known = self.freezing.steps.iter().rev().find(|s| matches!(s, Step::Unroll { .. }));
        if known != Some(&now) {
            self.freezing.steps.push(now);
        }
    }

    /// After the last label is popped, the payload must be parsed before it can be used.
    fn freeze_for_mpls(&mut self, action: &Action) {
        if self.progress.exit || !self.packet_state.was_mpls {
            return;
        }
        let l2_or_output = match action {
            Action::Output { .. }
            | Action::OutputTrunc { .. }
            | Action::Enqueue { .. }
            | Action::OutputReg { .. }
            | Action::SetVlanVid { .. }
            | Action::SetVlanPcp { .. }
            | Action::SetEthSrc(_)
            | Action::SetEthDst(_)
            | Action::SetTunnel { .. }
            | Action::SetQueue(_)
            | Action::Group(_) => true,
            Action::SetField { field, .. } | Action::RegLoad { dst: flow::Subfield { field, .. }, .. } => {
                *field <= FieldId::VlanPcp
            }
            _ => false,
        };
        if !l2_or_output {
            self.freeze();
        }
    }

    /// Shortens the timeouts of the rule when the connection ends with this packet.
    fn fin_timeout(&mut self, idle: u16, hard: u16) {
        const FIN_OR_RST: u16 = 0x005;
        self.mask.nw_proto = u8::MAX;
        if self.flow.nw_proto != 6 || !self.flow.is_ip() {
            return;
        }
        let Some(rule) = self.place.rule else { return };
        let end = FinTimeout { rule: Arc::clone(rule), idle, hard };
        if self.flow.tcp_flags & FIN_OR_RST != 0 && self.received.side_effects {
            self.out.effects.push(Effect::FinTimeout(end.clone()));
        }
        self.out.credits.push(Credit::FinTimeout(end));
    }
}
