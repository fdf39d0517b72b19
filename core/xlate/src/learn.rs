//! `learn`: adds flows that are derived from packets.

use crate::fields::look_at;
use crate::limits::LEARN_WORK;
use crate::messages::{open_trace, report};
use crate::outcome::{Credit, Effect, LearnedFlow};
use crate::trace::Kind;
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
                look_at(src, &mut self.mask);
            }
        }
        if self.input.pretend {
            report!(self, Warn, "suppressing side effects, so learn action ignored");
            return;
        }
        if !self.spend(LEARN_WORK) {
            return;
        }
        let flow_mod = make(learn, &self.flow);
        self.report_learned(&flow_mod);
        let learned = Arc::new(LearnedFlow { bridge: self.bridge.id, flow_mod, limit: learn.limit });
        if learn.limit != 0 {
            self.depends_on_limit(learn.table);
        }
        let room = self.has_room_for(&learned);
        if let Some(dst) = learn.result_dst {
            self.write(dst, u128::from(room));
            self.report_subfield(dst);
        }
        if !room {
            report!(self, Detail, "Limit exceeded, learn failed");
            return;
        }
        if self.received.side_effects {
            self.out.effects.push(Effect::Learn(Arc::clone(&learned)));
        }
        self.out.credits.push(Credit::Learn(learned));
    }

    /// Returns whether the flow can be learned, or exists already. With a packet this is checked again when the flow
    /// is added.
    fn has_room_for(&mut self, learned: &LearnedFlow) -> bool {
        let LearnedFlow { flow_mod, limit, .. } = learned;
        let tables = &self.bridge.tables;
        if *limit == 0 {
            return true;
        }
        let room = tables.may_learn(flow_mod, *limit);
        // Without a packet nothing is learned. The result is not cached if it depends on a learned flow that
        // was removed, because the next packet adds that flow again. If the limit prevents learning, the
        // result holds until the table changes.
        self.out.avoid_caching |= room && !self.received.side_effects && !tables.has_learned(flow_mod);
        room
    }

    fn report_learned(&mut self, f: &FlowMod) {
        let (Some(trace), Some(text)) = (open_trace(self.out), self.input.trace) else { return };
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
        trace.report(Kind::Detail, line);
    }
}

/// The flow that is learned from a packet.
fn make(learn: &Learn, flow: &Flow) -> FlowMod {
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
                dst.set_bytes(&mut matching.flow, &wide(&spec.src, flow));
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
                let bytes = wide(&spec.src, flow);
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

/// The bytes to be learned, of any length.
fn wide(src: &LearnSource, flow: &Flow) -> Vec<u8> {
    match src {
        LearnSource::Field(src) => src.bytes(flow),
        LearnSource::Value(v) => v.to_be_bytes().to_vec(),
    }
}

/// Restricts the ports to which a learned flow may output.
fn output(value: u128) -> Option<Action> {
    let port = OfPort(u16::try_from(value).ok()?);
    let allowed =
        port < OfPort::MAX || matches!(port, OfPort::IN_PORT | OfPort::FLOOD | OfPort::LOCAL | OfPort::ALL);
    allowed.then(|| Action::output(port))
}
