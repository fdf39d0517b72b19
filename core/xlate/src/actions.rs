//! Translates a list of actions, in order.
//!
//! No action is ignored silently: an action that the switch does not support makes the translation fail, and the packet
//! is counted as dropped.

use crate::changed_words::may_change;
use crate::fields::unwildcard_subfield;
use crate::frozen::FrozenStep;
use crate::lookup::LookupParams;
use crate::messages::report;
use crate::outcome::{FinTimeout, PacketEffect, StatsTarget};
use crate::trace::LineKind;
use crate::walk::Walk;
use dpif::DpAction;
use flow::FieldId;
use openflow::action::Action;
use std::sync::Arc;
use units::OfPort;

/// What is executed after an action.
pub(crate) enum AfterAction {
    /// The next action.
    Next,
    /// Nothing: the rest of the list is skipped.
    Stop,
    /// This action again, after recirculation.
    RepeatLater,
    /// The next action, after recirculation.
    NextLater,
}

impl Walk<'_> {
    /// Translates a list of actions. `last`: no action follows the list. `in_bucket`: the list is a bucket of a group;
    /// packet-ins state this as their reason. Returns false if an action or a limit ended the list before its end.
    pub(crate) fn actions(&mut self, actions: &[Action], last: bool, in_bucket: bool) -> bool {
        if actions.is_empty() {
            report!(self, Action, "drop");
        }
        for (i, action) in actions.iter().enumerate() {
            if !self.add_work(1) {
                return false;
            }
            self.freeze_for_mpls(action);
            if self.progress.exit {
                if self.freezing.active {
                    self.freeze_rest(&actions[i..]);
                }
                return true;
            }
            self.clear_mirrored_if_changed(action);
            self.report_actions(LineKind::Action, "", std::slice::from_ref(action));
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
                    self.mark_words_changed(words);
                    then
                }
                None => {
                    self.mark_all_words_changed();
                    let then = self.action(action, final_one, in_bucket);
                    self.mark_all_words_changed();
                    then
                }
            };
            let rest = match then {
                AfterAction::Next => continue,
                AfterAction::Stop => return false,
                AfterAction::RepeatLater => &actions[i..],
                AfterAction::NextLater => &actions[i + 1..],
            };
            if self.freezing.active && self.out.error.is_none() {
                self.freeze_rest(rest);
            }
            return true;
        }
        true
    }

    fn action(&mut self, action: &Action, last: bool, in_bucket: bool) -> AfterAction {
        match action {
            Action::Output { port, max_len } => self.output(*port, *max_len, last, in_bucket),
            Action::OutputReg { src, max_len } => {
                let port = src.get(&self.out.flow);
                match u16::try_from(port) {
                    Ok(number) => {
                        report!(self, Detail, "output port is {port}");
                        unwildcard_subfield(*src, &mut self.out.mask);
                        self.output(OfPort(number), *max_len, last, in_bucket);
                    }
                    Err(_) => report!(self, Warn, "output port {port} is out of range"),
                }
            }
            Action::OutputTrunc { port, max_len } => self.output_truncated(*port, *max_len, last, in_bucket),
            Action::Controller(c) => {
                if c.pause {
                    self.freezing.pause = Some(c.clone());
                    self.freeze();
                    return AfterAction::NextLater;
                }
                self.controller(c);
            }
            Action::Group(id) => {
                if !self.group(*id, last) {
                    return AfterAction::Stop;
                }
            }
            Action::Enqueue { port, queue } => self.enqueue(*port, *queue, last),
            Action::Bundle(b) => self.bundle_action(b, last, in_bucket),
            Action::Resubmit { port, table, with_ct } => {
                let port =
                    port.filter(|p| *p != OfPort::IN_PORT).map_or(self.out.flow.in_port, |p| u32::from(p.0));
                let table = table.unwrap_or(self.current.table_id);
                let internal = self.current.rule.as_ref().is_some_and(|r| r.table == ofproto::TABLE_INTERNAL);
                self.resubmit(LookupParams {
                    may_packet_in: internal,
                    honor_miss: internal,
                    with_ct: *with_ct,
                    last,
                    ..LookupParams::first(port, table)
                });
                return self.after_table();
            }
            Action::GotoTable(table) => {
                self.resubmit(LookupParams { last, ..LookupParams::first(self.out.flow.in_port, *table) });
                return self.after_table();
            }
            Action::Clone(list) => self.isolated(list, last),
            Action::Ct(ct) => self.conntrack(ct, last),
            Action::DecTtl { ids, .. } => {
                self.out.mask.nw_ttl = u8::MAX;
                self.out.mask.nw_proto = u8::MAX;
                if self.dec_ttl(ids) {
                    return AfterAction::Stop;
                }
            }
            Action::DecMplsTtl => {
                if self.dec_mpls_ttl() {
                    return AfterAction::Stop;
                }
            }
            Action::DecNshTtl => {
                if self.dec_nsh_ttl() {
                    return AfterAction::Stop;
                }
            }
            Action::Encap(encap) => self.encap(encap),
            Action::Decap { packet_type } => {
                if self.decap(*packet_type) {
                    self.freeze();
                    return AfterAction::NextLater;
                }
            }
            Action::Exit => {
                self.progress.exit = true;
                return AfterAction::Stop;
            }
            Action::DebugRecirc => {
                self.freeze();
                return AfterAction::NextLater;
            }
            _ => return self.header_action(action),
        }
        self.after_freezing()
    }

    /// Translates the remaining kinds of actions.
    pub(crate) fn other_action(&mut self, action: &Action) -> AfterAction {
        match action {
            Action::Learn(learn) => self.learn(learn),
            Action::Multipath(mp) => self.multipath(mp),
            Action::FinTimeout { idle, hard } => self.fin_timeout(*idle, *hard),
            Action::ClearActions => self.clear_actions(),
            Action::WriteActions(list) if !self.add_work(list.len()) => {}
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
        AfterAction::Next
    }

    /// After a look-up: the rule has been executed, so it must not be executed again after recirculation.
    fn after_table(&self) -> AfterAction {
        if self.progress.exit { AfterAction::NextLater } else { AfterAction::Next }
    }

    /// After an action that may have frozen the walk. If the action recorded no steps, it is repeated after recirculation;
    /// otherwise the recorded steps are its remaining part.
    fn after_freezing(&self) -> AfterAction {
        match self.progress.exit && self.freezing.active {
            true if self.freezing.steps.is_empty() => AfterAction::RepeatLater,
            true => AfterAction::NextLater,
            false => AfterAction::Next,
        }
    }

    /// Records actions as steps that are executed after recirculation.
    fn freeze_rest(&mut self, actions: &[Action]) {
        for action in actions {
            let reports_rule = match action {
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
            if reports_rule {
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
            self.freezing.steps.push(FrozenStep::Do(step));
        }
    }

    /// Records the current table and cookie, unless the last `UnrollXlate` step has the same.
    fn freeze_unroll(&mut self) {
        let now = FrozenStep::UnrollXlate { table: self.current.table_id, cookie: self.current.rule_cookie };
        let known = self.freezing.steps.iter().rev().find(|s| matches!(s, FrozenStep::UnrollXlate { .. }));
        if known != Some(&now) {
            self.freezing.steps.push(now);
        }
    }

    /// After the last MPLS label is popped, the payload's fields are unknown until the packet is recirculated. So the walk
    /// is frozen before an action that needs them.
    fn freeze_for_mpls(&mut self, action: &Action) {
        if self.progress.exit || !self.packet_state.was_mpls {
            return;
        }
        let needs_no_payload = match action {
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
        if !needs_no_payload {
            self.freeze();
        }
    }

    /// Shortens the timeouts of the rule when the connection ends with this packet.
    fn fin_timeout(&mut self, idle: u16, hard: u16) {
        const FIN_OR_RST: u16 = 0x005;
        self.out.mask.nw_proto = u8::MAX;
        if self.out.flow.nw_proto != 6 || !self.out.flow.is_ip() {
            return;
        }
        let Some(rule) = self.current.rule else { return };
        let end = FinTimeout { rule: Arc::clone(rule), idle, hard };
        if self.out.flow.tcp_flags & FIN_OR_RST != 0 && self.received.returns_side_effects {
            self.out.effects.push(PacketEffect::FinTimeout(end.clone()));
        }
        self.out.stats_targets.push(StatsTarget::FinTimeout(end));
    }
}
