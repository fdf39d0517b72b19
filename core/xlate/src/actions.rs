//! Translates one list of actions, in order.
//!
//! An action that this switch does not support makes the packet's translation fail, so that the failure is visible
//! and counted. No action is ignored silently.

use crate::changed::may_change;
use crate::fields::look_at;
use crate::frozen::Step;
use crate::lookup::Search;
use crate::messages::report;
use crate::outcome::{Credit, Effect, Failure, FinTimeout};
use crate::trace::Kind;
use crate::walk::Walk;
use crate::{hash, header};
use dpif::DpAction;
use flow::{FieldId, Flow, Mac, VLAN_CFI};
use openflow::action::{Action, Bundle, BundleAlgorithm, Multipath, MultipathAlgorithm};
use std::cmp::Reverse;
use std::sync::Arc;
use units::OfPort;

/// How the list continues after an action.
enum Then {
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
            if self.exit {
                if self.freezing {
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
            let final_one = last && i + 1 == actions.len() && self.action_set.is_empty();
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
            if self.freezing && self.out.error.is_none() {
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
                    self.pause = Some(c.clone());
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
                let table = table.unwrap_or(self.table_id);
                let internal = self.rule.as_ref().is_some_and(|r| r.table == ofproto::TABLE_INTERNAL);
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
                self.exit = true;
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

    /// Translates actions on fields and metadata.
    fn header_action(&mut self, action: &Action) -> Then {
        match action {
            Action::SetField { field, value, mask } => self.set_field(*field, *value, *mask),
            Action::SetTlv(t) => self.set_tlv(t),
            Action::RegLoad { dst, value } if dst.field.tlv_index().is_some() => self.write(*dst, *value),
            Action::RegLoad { dst, value } => {
                self.set_field(dst.field, value << dst.ofs, dst.field_mask());
            }
            Action::RegMove { src, dst } => self.move_bits(*src, *dst),
            Action::StackPush(src) => self.stack_push(*src),
            Action::StackPop(dst) => self.stack_pop(*dst),
            Action::SetVlanVid { vid, push } => self.set_tci(0xfff, *vid, *push),
            Action::SetVlanPcp { pcp, push } => self.set_tci(0xe000, u16::from(*pcp) << 13, *push),
            Action::StripVlan { .. } => header::pop_vlan(&mut self.flow, &mut self.mask),
            Action::PushVlan(tpid) => header::push_vlan(&mut self.flow, &mut self.mask, *tpid),
            Action::SetEthSrc(mac) => {
                self.mask.dl_src = Mac::BROADCAST;
                self.flow.dl_src = *mac;
            }
            Action::SetEthDst(mac) => {
                self.mask.dl_dst = Mac::BROADCAST;
                self.flow.dl_dst = *mac;
            }
            Action::SetIpv4Src(a) => self.set_l3(FieldId::Ipv4Src, u32::from(*a).into(), u128::MAX, 0x0800),
            Action::SetIpv4Dst(a) => self.set_l3(FieldId::Ipv4Dst, u32::from(*a).into(), u128::MAX, 0x0800),
            Action::SetIpDscp(v) => self.set_tos(*v, 0xfc),
            Action::SetIpEcn(v) => self.set_tos(*v, 0x03),
            Action::SetIpTtl(v) => self.set_l3(FieldId::IpTtl, u128::from(*v), u128::MAX, 0),
            Action::SetL4Src(port) => self.set_l4(FieldId::TcpSrc, *port),
            Action::SetL4Dst(port) => self.set_l4(FieldId::TcpDst, *port),
            Action::PushMpls(ethertype) => self.push_mpls(*ethertype),
            Action::PopMpls(ethertype) => self.pop_mpls(*ethertype),
            Action::SetMplsLabel(v) => self.set_lse(0xffff_f000, v << 12),
            Action::SetMplsTc(v) => self.set_lse(0xe00, u32::from(*v) << 9),
            Action::SetMplsTtl(v) => self.set_lse(0xff, u32::from(*v)),
            Action::SetTunnel { id, .. } => self.flow.tunnel.tun_id = *id,
            Action::SetQueue(queue) => self.set_queue(*queue),
            Action::PopQueue => self.pop_queue(),
            Action::WriteMetadata { value, mask } => {
                self.flow.metadata = self.flow.metadata & !mask | value & mask;
            }
            _ => return self.other_action(action),
        }
        Then::Next
    }

    /// Translates the other actions, including unsupported ones.
    fn other_action(&mut self, action: &Action) -> Then {
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
            Action::CtClear if !self.conntracked => {}
            Action::CtClear => {
                self.clear_conntrack();
                self.out.actions.push(dpif::DpAction::CtClear);
            }
            // Part of `ct`.
            Action::Nat(_) => {}
            // Without collectors it does nothing.
            Action::Sample(_) => {}
            Action::DeleteField(sf) => self.delete_field(sf.field),
            other => {
                debug_assert!(false, "{other:?} is done elsewhere");
            }
        }
        Then::Next
    }

    /// The rule that was found has been executed: it must not be executed again after recirculation.
    fn after_table(&self) -> Then {
        if self.exit { Then::Later } else { Then::Next }
    }

    /// An action that froze the walk is executed after recirculation, except for its deferred part.
    fn after_freezing(&self) -> Then {
        match self.exit && self.freezing {
            true if self.frozen_steps.is_empty() => Then::Again,
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
            self.frozen_steps.push(Step::Do(step));
        }
    }

    fn freeze_unroll(&mut self) {
        let now = Step::Unroll { table: self.table_id, cookie: self.rule_cookie };
        let known = self.frozen_steps.iter().rev().find(|s| matches!(s, Step::Unroll { .. }));
        if known != Some(&now) {
            self.frozen_steps.push(now);
        }
    }

    /// After the last label is popped, the payload must be parsed before it can be used.
    fn freeze_for_mpls(&mut self, action: &Action) {
        if self.exit || !self.was_mpls {
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

    fn set_tci(&mut self, bits: u16, value: u16, push: bool) {
        self.mask.vlans[0].tci |= bits | VLAN_CFI;
        let tag = &mut self.flow.vlans[0];
        if tag.tci & VLAN_CFI != 0 || push {
            if tag.tpid == 0 {
                tag.tpid = 0x8100;
            }
            tag.tci = tag.tci & !bits | value & bits | VLAN_CFI;
        }
    }

    /// Writes a field of the IP header. `dl_type` 0: of either IP version.
    fn set_l3(&mut self, field: FieldId, value: u128, bits: u128, dl_type: u16) {
        if self.flow.dl_type == dl_type || dl_type == 0 && self.flow.is_ip() {
            let all = field.mask_of(&self.mask) | bits & field.ones();
            field.set_mask(&mut self.mask, all);
            self.mask.nw_proto = u8::MAX;
            field.set_masked(&mut self.flow, value, bits);
        }
    }

    fn set_tos(&mut self, value: u8, bits: u8) {
        if self.flow.is_ip() {
            self.mask.nw_proto = u8::MAX;
            self.mask.nw_tos |= bits;
            self.flow.nw_tos = self.flow.nw_tos & !bits | value & bits;
        }
    }

    fn set_l4(&mut self, field: FieldId, port: u16) {
        if self.flow.is_ip() && self.flow.nw_frag & flow::flow::frag::LATER == 0 {
            self.mask.nw_proto = u8::MAX;
            field.unwildcard(&mut self.mask);
            field.set(&mut self.flow, u128::from(port));
        }
    }

    fn dec_ttl(&mut self, controllers: &[u16]) -> bool {
        if !self.flow.is_ip() {
            return false;
        }
        if self.flow.nw_ttl > 1 {
            self.flow.nw_ttl -= 1;
            return false;
        }
        for id in controllers {
            self.invalid_ttl(*id);
        }
        let version = if self.flow.dl_type == 0x0800 { 4 } else { 6 };
        report!(self, Warn, "IPv{version} decrement TTL exception");
        true
    }

    fn push_mpls(&mut self, ethertype: u16) {
        let n = header::mpls_count(&self.flow, Some(&mut self.mask));
        if n == 0 {
            self.commit();
        } else if n >= flow::flow::MPLS_MAX {
            return self.too_many_labels(self.base, format_args!(
                "dropping packet on which an MPLS push action can't be performed as it would have more MPLS LSEs \
                 than the {} supported.",
                flow::flow::MPLS_MAX
            ));
        }
        header::push_mpls(&mut self.flow, n, ethertype, Some(&mut self.mask), true);
    }

    fn pop_mpls(&mut self, ethertype: u16) {
        let n = header::mpls_count(&self.flow, Some(&mut self.mask));
        if header::pop_mpls(&mut self.flow, n, ethertype, Some(&mut self.mask)) {
            if !header::is_mpls(ethertype) {
                self.was_mpls = true;
            }
        } else if n >= flow::flow::MPLS_MAX {
            self.too_many_labels(self.base, format_args!(
                "dropping packet on which an MPLS pop action can't be performed as it has more MPLS LSEs than the {} \
                 supported.",
                flow::flow::MPLS_MAX
            ));
            self.out.actions.clear();
        }
    }

    pub(crate) fn too_many_labels(&mut self, about: Flow, text: std::fmt::Arguments<'_>) {
        if self.packet.is_some() {
            self.error_about(about, text);
        }
        self.out.error = Some(Failure::TooManyMplsLabels);
    }

    fn set_lse(&mut self, bits: u32, value: u32) {
        if header::is_mpls(self.flow.dl_type) {
            self.mask.mpls_lse[0] |= bits;
            self.flow.mpls_lse[0] = self.flow.mpls_lse[0] & !bits | value & bits;
        }
    }

    fn dec_mpls_ttl(&mut self) -> bool {
        if header::is_mpls(self.flow.dl_type) {
            self.mask.mpls_lse[0] |= 0xff;
            if self.flow.mpls_lse[0] & 0xff > 1 {
                self.flow.mpls_lse[0] -= 1;
                return false;
            }
            self.invalid_ttl(0);
        }
        report!(self, Warn, "MPLS decrement TTL exception");
        true
    }

    fn pop_queue(&mut self) {
        self.mask.skb_priority = u32::MAX;
        let original = self.out.initial.skb_priority;
        if self.flow.skb_priority != original {
            self.flow.skb_priority = original;
            report!(self, Detail, "queue = {}", hex(original));
        }
    }

    fn multipath(&mut self, mp: &Multipath) {
        let hash = hash::of_fields(&self.flow, mp.fields, u32::from(mp.basis));
        let link = choose_link(hash, mp.algorithm, u32::from(mp.max_link) + 1, mp.arg);
        hash::unwildcard(&self.flow, &mut self.mask, mp.fields);
        self.write(mp.dst, u128::from(link));
        self.report_subfield(mp.dst);
    }

    fn bundle_action(&mut self, b: &Bundle, last: bool, in_bucket: bool) {
        let up = |port: OfPort| match port {
            OfPort::IN_PORT | OfPort::TABLE | OfPort::NORMAL | OfPort::FLOOD | OfPort::ALL | OfPort::NONE => {
                true
            }
            OfPort::CONTROLLER => false,
            _ => self.bridge.port(port).is_some_and(|p| p.may_enable),
        };
        let members = b.members.iter().copied().enumerate().filter(|(_, p)| up(*p));
        let chosen = match b.algorithm {
            BundleAlgorithm::ActiveBackup => members.map(|(_, p)| p).next(),
            BundleAlgorithm::Hrw => {
                let hash = hash::of_fields(&self.flow, b.fields, u32::from(b.basis));
                members.max_by_key(|(i, _)| (hash::of_two(*i as u32, hash), Reverse(*i))).map(|(_, p)| p)
            }
        };
        if b.algorithm == BundleAlgorithm::Hrw && b.members.len() > 1 {
            hash::unwildcard(&self.flow, &mut self.mask, b.fields);
        }
        let port = chosen.unwrap_or(OfPort::NONE);
        match b.dst {
            Some(dst) => {
                self.write(dst, u128::from(port.0));
                self.report_subfield(dst);
            }
            None => self.output(port, 0, last, in_bucket),
        }
    }

    /// Shortens the timeouts of the rule when the connection ends with this packet.
    fn fin_timeout(&mut self, idle: u16, hard: u16) {
        const FIN_OR_RST: u16 = 0x005;
        self.mask.nw_proto = u8::MAX;
        if self.flow.nw_proto != 6 || !self.flow.is_ip() {
            return;
        }
        let Some(rule) = self.rule else { return };
        let end = FinTimeout { rule: Arc::clone(rule), idle, hard };
        if self.flow.tcp_flags & FIN_OR_RST != 0 && self.side_effects {
            self.out.effects.push(Effect::FinTimeout(end.clone()));
        }
        self.out.credits.push(Credit::FinTimeout(end));
    }
}

/// `0x` and digits, but a bare 0 for zero.
pub(crate) fn hex(v: impl Into<u64>) -> String {
    let v = v.into();
    if v == 0 { "0".into() } else { format!("{v:#x}") }
}

/// Selects one of `n` links by a hash (RFC 2992 and similar algorithms).
fn choose_link(hash: u32, algorithm: MultipathAlgorithm, n: u32, arg: u32) -> u32 {
    match algorithm {
        MultipathAlgorithm::ModuloN => hash % n,
        MultipathAlgorithm::HashThreshold if n == 1 => 0,
        MultipathAlgorithm::HashThreshold => hash / (u32::MAX / n + 1),
        MultipathAlgorithm::Hrw if n <= 64 => {
            (0..n).max_by_key(|l| (hash::of_two(hash, *l), n - l)).unwrap_or_default()
        }
        MultipathAlgorithm::Hrw => iterated(hash, n, 0),
        MultipathAlgorithm::IterHash => iterated(hash, n, arg),
    }
}

fn iterated(hash: u32, n: u32, modulo: u32) -> u32 {
    let modulo = if modulo < n || modulo / 2 > n { n.next_power_of_two() } else { modulo };
    // Each try succeeds with probability 1/2 or more, so 256 failures happen only with a broken hash.
    (0..256).map(|i| hash::of_two(hash, i) % modulo).find(|l| *l < n).unwrap_or(hash % n)
}
