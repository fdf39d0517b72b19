//! `learn`: adds flows whose match and actions are derived from the packet.

use crate::fields::unwildcard_subfield;
use crate::limits::LEARN_WORK;
use crate::messages::{report, unfilled_trace};
use crate::outcome::{LearnedFlow, PacketEffect, StatsTarget};
use crate::trace::LineKind;
use crate::walk::Walk;
use flow::field::Prereq;
use flow::{Flow, Match};
use openflow::FlowMod;
use openflow::action::{Action, Learn, LearnSource, LearnTarget};
use openflow::flow_mod::{FlowCommand, FlowFlags};
use std::sync::Arc;
use units::OfPort;

impl Walk<'_> {
    pub(crate) fn learn(&mut self, learn: &Learn) {
        for spec in &learn.specs {
            if let LearnSource::Field(src) = spec.src {
                unwildcard_subfield(src, &mut self.out.mask);
            }
        }
        if self.input.dry_run {
            report!(self, Warn, "suppressing side effects, so learn action ignored");
            return;
        }
        if !self.add_work(LEARN_WORK + learn.specs.len()) {
            return;
        }
        let flow_mod = learned_flow_mod(learn, &self.out.flow);
        self.report_learned(&flow_mod);
        let learned = Arc::new(LearnedFlow { bridge: self.bridge.id, flow_mod, limit: learn.limit });
        if learn.limit != 0 {
            self.depends_on_limit(learn.table);
        }
        let may_learn = self.may_add_learned(&learned);
        if let Some(dst) = learn.result_dst {
            self.write(dst, u128::from(may_learn));
            self.report_subfield(dst);
        }
        if !may_learn {
            report!(self, Detail, "Limit exceeded, learn failed");
            return;
        }
        if self.received.returns_side_effects {
            self.out.effects.push(PacketEffect::Learn(Arc::clone(&learned)));
        }
        self.out.stats_targets.push(StatsTarget::Learn(learned));
    }

    /// Returns whether the flow can be learned within the limit, or exists already. The limit is checked again when the flow is
    /// added.
    fn may_add_learned(&mut self, learned: &LearnedFlow) -> bool {
        let LearnedFlow { flow_mod, limit, .. } = learned;
        let tables = &self.bridge.tables;
        if *limit == 0 {
            return true;
        }
        let may_learn = tables.may_learn(flow_mod, *limit);
        // A translation without side effects learns nothing. If the learned flow does not exist, the result must not be
        // cached: the next packet has to be translated, to add the flow. If the limit prevents learning, the result is
        // valid until the table changes.
        self.out.avoid_caching |=
            may_learn && !self.received.returns_side_effects && !tables.has_learned(flow_mod);
        may_learn
    }

    fn report_learned(&mut self, f: &FlowMod) {
        let (Some(trace), Some(text)) = (unfilled_trace(&mut self.out.trace), self.input.trace_format) else {
            return;
        };
        let mut line =
            format!("table={} {} priority={}", f.table, text.matching(self.bridge, &f.matching), f.priority);
        if f.new_cookie != 0 {
            line.push_str(&format!(" cookie={:#x}", f.new_cookie));
        }
        if f.idle_timeout != 0 {
            line.push_str(&format!(" idle={}", f.idle_timeout));
        }
        if f.hard_timeout != 0 {
            line.push_str(&format!(" hard={}", f.hard_timeout));
        }
        if f.flags.send_flow_rem {
            line.push_str(" send_flow_rem");
        }
        line.push_str(&format!(" actions={}", text.actions(self.bridge, &f.actions)));
        trace.report(LineKind::Detail, line);
    }
}

/// The request that adds the flow learned from a packet.
fn learned_flow_mod(learn: &Learn, flow: &Flow) -> FlowMod {
    let (mut matching, mut actions) = (Match::CATCHALL, Vec::new());
    matching.set_layout(flow.layout);
    if learn.fin_idle_timeout != 0 || learn.fin_hard_timeout != 0 {
        actions.push(Action::FinTimeout { idle: learn.fin_idle_timeout, hard: learn.fin_hard_timeout });
    }
    for spec in &learn.specs {
        let value = match &spec.src {
            LearnSource::Field(src) => src.get(flow),
            LearnSource::Value(v) => *v,
        };
        match spec.dst {
            LearnTarget::Match(dst) if dst.field.tlv_index().is_some() => {
                dst.unwildcard(&mut matching.mask);
                dst.set_bytes(&mut matching.flow, &learned_bytes(&spec.src, flow));
            }
            LearnTarget::Match(dst) => {
                let (old, mask) = matching.get(dst.field);
                let value = old & !dst.field_mask() | (value & dst.ones()) << dst.ofs;
                matching.set_masked(dst.field, value, mask | dst.field_mask());
                if dst.field.info().prereq != Prereq::None {
                    matching.require_ethernet();
                }
            }
            // Values of more than 128 bits are loaded in parts.
            LearnTarget::Load(dst) if dst.n_bits > 128 => {
                let bytes = learned_bytes(&spec.src, flow);
                let number = |part: &[u8]| part.iter().fold(0, |v, b| v << 8 | u128::from(*b));
                let parts = dst.parts().zip(bytes.rchunks(16));
                actions.extend(parts.map(|(dst, part)| Action::RegLoad { dst, value: number(part) }));
            }
            LearnTarget::Load(dst) => actions.push(Action::RegLoad { dst, value: value & dst.ones() }),
            LearnTarget::Output => actions.extend(output(value)),
        }
    }
    FlowMod {
        command: FlowCommand::ModifyStrict,
        table: learn.table,
        priority: learn.priority,
        new_cookie: learn.cookie,
        modify_cookie: learn.cookie != u64::MAX,
        matching,
        actions,
        idle_timeout: learn.idle_timeout,
        hard_timeout: learn.hard_timeout,
        flags: FlowFlags { send_flow_rem: learn.send_flow_rem, ..FlowFlags::default() },
        ..FlowMod::default()
    }
}

/// The value of a source as bytes; fields of tunnel options may be longer than 128 bits.
fn learned_bytes(src: &LearnSource, flow: &Flow) -> Vec<u8> {
    match src {
        LearnSource::Field(src) => src.bytes(flow),
        LearnSource::Value(v) => v.to_be_bytes().to_vec(),
    }
}

/// The output action of a learned flow; `None` if a learned flow must not output to this port.
fn output(value: u128) -> Option<Action> {
    let port = OfPort(u16::try_from(value).ok()?);
    let allowed =
        port < OfPort::MAX || matches!(port, OfPort::IN_PORT | OfPort::FLOOD | OfPort::LOCAL | OfPort::ALL);
    allowed.then(|| Action::output(port))
}
