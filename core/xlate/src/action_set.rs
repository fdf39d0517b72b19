//! The action set (OpenFlow 1.3.5 §5.10): `write_actions` fills it, and the end of the pipeline executes it.

use crate::messages::{report, unfilled_trace};
use crate::trace::LineKind;
use crate::walk::Walk;
use openflow::action::Action;
use units::OfPort;

/// When an action of the set is executed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Slot {
    /// At this position; only the last written action with this position is executed.
    Once(usize),
    /// After the `Once` actions, in the order in which the actions were written.
    Set,
    /// Never: the action is not allowed in a set.
    Never,
    /// At the end. Only the `Final` action with the highest rank is executed; a set without a `Final` action does nothing.
    Final(usize),
}

fn slot(action: &Action) -> Slot {
    match action {
        Action::StripVlan { .. } => Slot::Once(0),
        Action::PopMpls(_) => Slot::Once(1),
        Action::Decap { .. } => Slot::Once(2),
        Action::Encap(_) => Slot::Once(3),
        Action::PushMpls(_) => Slot::Once(4),
        Action::PushVlan(_) => Slot::Once(5),
        Action::DecTtl { .. } => Slot::Once(6),
        Action::DecMplsTtl => Slot::Once(7),
        Action::DecNshTtl => Slot::Once(8),
        Action::Ct(_) => Slot::Final(0),
        Action::CtClear => Slot::Final(1),
        Action::Resubmit { .. } => Slot::Final(2),
        Action::Output { .. } => Slot::Final(3),
        Action::Group(_) => Slot::Final(4),
        Action::SetField { .. }
        | Action::RegLoad { .. }
        | Action::RegMove { .. }
        | Action::SetVlanVid { .. }
        | Action::SetVlanPcp { .. }
        | Action::SetEthSrc(_)
        | Action::SetEthDst(_)
        | Action::SetIpv4Src(_)
        | Action::SetIpv4Dst(_)
        | Action::SetIpDscp(_)
        | Action::SetIpEcn(_)
        | Action::SetIpTtl(_)
        | Action::SetL4Src(_)
        | Action::SetL4Dst(_)
        | Action::SetMplsLabel(_)
        | Action::SetMplsTc(_)
        | Action::SetMplsTtl(_)
        | Action::SetTunnel { .. }
        | Action::SetTlv(_)
        | Action::SetQueue(_) => Slot::Set,
        _ => Slot::Never,
    }
}

/// The actions of a set, in the order in which they are executed.
pub(crate) fn in_order(set: &[Action]) -> Vec<Action> {
    let mut once: [Option<&Action>; 9] = [None; 9];
    let mut sets = Vec::new();
    let mut last: Option<(usize, &Action)> = None;
    for action in set {
        match slot(action) {
            Slot::Once(i) => once[i] = Some(action),
            Slot::Set => sets.push(action),
            Slot::Final(rank) if last.is_none_or(|(r, _)| rank >= r) => last = Some((rank, action)),
            Slot::Final(_) | Slot::Never => {}
        }
    }
    let Some((_, last)) = last else { return Vec::new() };
    once.into_iter().flatten().chain(sets).chain([last]).cloned().collect()
}

impl Walk<'_> {
    pub(crate) fn write_actions(&mut self, actions: &[Action]) {
        // `actset_output` is the output port of the set, unless the set has a group.
        for action in actions {
            match action {
                _ if self.action_set_has_group => break,
                Action::Output { port, .. } => self.out.flow.actset_output = port.0,
                Action::Group(_) => {
                    self.out.flow.actset_output = OfPort::UNSET.0;
                    self.action_set_has_group = true;
                }
                _ => {}
            }
        }
        self.pipeline.action_set.extend_from_slice(actions);
    }

    pub(crate) fn clear_actions(&mut self) {
        self.report_action_set("was");
        self.pipeline.action_set.clear();
        self.out.flow.actset_output = OfPort::UNSET.0;
        self.action_set_has_group = false;
    }

    pub(crate) fn report_action_set(&mut self, verb: &str) {
        // Ordering the set takes time, so it is ordered only for a trace that is not full.
        if unfilled_trace(&mut self.out.trace).is_none() {
            return;
        }
        let list = in_order(&self.pipeline.action_set);
        if list.is_empty() {
            report!(self, Detail, "action set {verb} empty");
        } else {
            self.report_actions(LineKind::Detail, &format!("action set {verb}"), &list);
        }
    }

    /// Ends the actions of a packet: executes the action set, or freezes the walk if one of its actions needs recirculation.
    pub(crate) fn run_action_set_or_freeze(&mut self) {
        if !self.freezing.active {
            self.run_action_set();
        }
        if self.freezing.active {
            self.finish_freezing();
        }
    }

    /// Executes the action set at the end of the pipeline.
    pub(crate) fn run_action_set(&mut self) {
        let list = in_order(&std::mem::take(&mut self.pipeline.action_set));
        if list.is_empty() {
            return;
        }
        self.progress.in_action_set = true;
        let back = self.nest(LineKind::Table, || "--. Executing action set:".into());
        self.actions(&list, true, false);
        self.unnest(back);
        self.progress.in_action_set = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_standard_order() {
        let out = Action::output(OfPort(1));
        let set =
            [Action::PushVlan(0x8100), out.clone(), Action::SetIpTtl(1), Action::StripVlan { pop: true }];
        let list = in_order(&set);
        assert_eq!(
            list,
            [Action::StripVlan { pop: true }, Action::PushVlan(0x8100), Action::SetIpTtl(1), out]
        );
    }

    #[test]
    fn options_of_a_tunnel_are_set_like_other_fields() {
        let field = flow::Subfield::whole(flow::FieldId::TunMetadata0);
        let option = openflow::action::SetTlv { field, value: vec![1], mask: None };
        let set = [Action::SetTlv(Box::new(option)), Action::output(OfPort(1))];
        assert_eq!(in_order(&set), set);
    }

    #[test]
    fn a_group_beats_an_output_and_no_end_is_nothing() {
        let set = [Action::Group(1), Action::output(OfPort(1)), Action::Group(2)];
        assert_eq!(in_order(&set), [Action::Group(2)]);
        assert_eq!(in_order(&[Action::SetIpTtl(1)]), []);
        // Actions that are not allowed in a set may be in a bucket.
        assert_eq!(
            in_order(&[Action::Exit, Action::Clone(Vec::new()), Action::Group(1)]),
            [Action::Group(1)]
        );
    }
}
