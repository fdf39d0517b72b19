//! The switch's own flows, in the last table: `bridge/dump-flows` shows them.

use crate::alike::Alike;
use crate::effects::{Change, Effects};
use crate::flow_mod::Changing;
use crate::request::FlowRequest;
use crate::rule::Rule;
use crate::state::State;
use crate::supply::Supply;
use crate::tables::{InternalRules, TABLE_INTERNAL};
use flow::{Flow, Match};
use openflow::action::{Action, Controller};
use openflow::flow_mod::FlowMod;
use std::sync::Arc;
use units::Millis;

/// `OFPR_*` as this switch knows it: a table miss that no table-miss flow asked for.
pub const REASON_IMPLICIT_MISS: u8 = 7;

/// Makes the internal table and its flows.
pub(crate) fn install(
    state: &mut State,
    supply: &mut Supply,
    alike: &mut Alike,
    now: Millis,
) -> InternalRules {
    Arc::make_mut(&mut state.table_mut(TABLE_INTERNAL).config).internal = true;
    let mut effects = Effects::default();
    let mut c = Changing { state, supply, effects: &mut effects, now };
    let mut add = |priority, m: &Match, actions| add(&mut c, alike, priority, m, actions);
    let to_controller = Controller { reason: REASON_IMPLICIT_MISS, ..Controller::default() };
    let rules = InternalRules {
        miss: add(0, &by_number(1), vec![Action::Controller(Box::new(to_controller))]),
        no_packet_in: add(0, &by_number(2), vec![]),
        drop_frags: add(0, &by_number(3), vec![]),
    };
    // A look-up gets here only after a recirculation; one that has lost its recirculation id ends here.
    add(2, &Match { flow: Flow::ZERO, mask: Flow { recirc_id: u32::MAX, ..Flow::ZERO } }, vec![]);
    rules
}

/// These flows are found by reference, never by look-up: their match only tells them apart.
fn by_number(n: u32) -> Match {
    let mut m = Match::CATCHALL;
    m.flow.regs[0] = n;
    m.mask.regs[0] = u32::MAX;
    m
}

fn add(c: &mut Changing<'_>, alike: &mut Alike, priority: u32, m: &Match, actions: Vec<Action>) -> Arc<Rule> {
    let fm = FlowMod { table: TABLE_INTERNAL, matching: *m, actions, ..FlowMod::default() };
    let request = FlowRequest::new(&fm, alike);
    let done = c.flow_mod(&FlowRequest { priority, internal: true, ..request });
    match (done, c.effects.flows.pop()) {
        (Ok(()), Some(Change::Added(rule))) => rule,
        other => unreachable!("an empty table takes any flow: {other:?}"),
    }
}
