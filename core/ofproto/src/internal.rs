//! The switch's own flows in the internal table, which is the last table. `bridge/dump-flows` prints them.

use crate::flow_mod::StateEditor;
use crate::intern::Interner;
use crate::request::FlowRequest;
use crate::rule::Rule;
use crate::rule_numbers::RuleNumbers;
use crate::state::State;
use crate::table_changes::{FlowChange, TableChanges};
use crate::table_numbers::TABLE_INTERNAL;
use crate::tables::InternalRules;
use flow::{Flow, Match};
use openflow::action::{Action, Controller};
use openflow::flow_mod::FlowMod;
use std::sync::Arc;
use units::Millis;

/// Reason of packet-ins for a table miss without a table-miss flow (internal to Open vSwitch: `OFPR_IMPLICIT_MISS`).
pub const REASON_IMPLICIT_MISS: u8 = 7;

/// Creates the internal table and its flows.
pub(crate) fn install(
    state: &mut State,
    rule_numbers: &mut RuleNumbers,
    interner: &mut Interner,
    now: Millis,
) -> InternalRules {
    Arc::make_mut(&mut state.table_mut(TABLE_INTERNAL).config).internal = true;
    let mut changes = TableChanges::default();
    let mut c = StateEditor { state, rule_numbers, changes: &mut changes, now };
    let mut add = |priority, m: &Match, actions| add(&mut c, interner, priority, m, actions);
    let to_controller = Controller { reason: REASON_IMPLICIT_MISS, ..Controller::default() };
    let rules = InternalRules {
        miss: add(0, &distinct_match(1), vec![Action::Controller(Box::new(to_controller))]),
        no_packet_in: add(0, &distinct_match(2), vec![]),
        drop_frags: add(0, &distinct_match(3), vec![]),
    };
    // Drops packets that were not recirculated: a flow can send them to this table (`resubmit(,254)`).
    add(2, &Match { flow: Flow::ZERO, mask: Flow { recirc_id: u32::MAX, ..Flow::ZERO } }, vec![]);
    rules
}

/// A match on a number. The switch holds references to these flows and never looks them up; the match only makes them distinct.
fn distinct_match(n: u32) -> Match {
    let mut m = Match::CATCHALL;
    m.flow.regs[0] = n;
    m.mask.regs[0] = u32::MAX;
    m
}

fn add(
    c: &mut StateEditor<'_>,
    interner: &mut Interner,
    priority: u32,
    m: &Match,
    actions: Vec<Action>,
) -> Arc<Rule> {
    let fm = FlowMod { table: TABLE_INTERNAL, matching: *m, actions, ..FlowMod::default() };
    let request = FlowRequest::new(&fm, interner);
    let done = c.flow_mod(FlowRequest { priority, from_switch: true, ..request });
    match (done, c.changes.flows.pop()) {
        (Ok(()), Some(FlowChange::Added(rule))) => rule,
        other => unreachable!("a flow of the switch itself is not refused: {other:?}"),
    }
}
