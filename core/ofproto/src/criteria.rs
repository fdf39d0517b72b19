//! Criteria by which a request selects flows: table, match, cookie, output port and group.

use crate::request::{FlowRequest, sparse};
use crate::rule::{PRIORITY_MAX, Rule};
use crate::state::State;
use crate::table::Table;
use crate::table_numbers::{N_TABLES, TABLE_ALL, TABLE_INTERNAL};
use classifier::of::SparseMatch;
use flow::Match;
use openflow::action::Action;
use openflow::error::OfError;
use openflow::flow_mod::{FlowCommand, GROUP_ANY};
use openflow::stats::FlowStatsRequest;
use std::sync::Arc;
use units::OfPort;

/// A filter over flows.
#[derive(Clone, Debug)]
pub struct Criteria {
    /// The table of the flow; 255: all tables that are visible to OpenFlow.
    pub table: u8,
    /// The match of the flow must be equal to or more specific than this match.
    pub matching: SparseMatch,
    /// If set, the flow must have exactly the match `matching` and this priority.
    pub strict: Option<u32>,
    /// The cookie of the flow must have this value in the bits of `cookie_mask`.
    pub cookie: u64,
    /// The bits of the cookie to compare.
    pub cookie_mask: u64,
    /// The flow must output to this port; `NONE`: any flow.
    pub out_port: OfPort,
    /// The flow must use this group; `GROUP_ANY`: any flow.
    pub out_group: u32,
    /// Whether flows of internal tables may be changed, too.
    pub may_change_internal: bool,
}

impl Criteria {
    /// Selects every flow that is visible to OpenFlow.
    pub fn all() -> Criteria {
        Criteria::within(TABLE_ALL, &Match::CATCHALL)
    }

    /// Selects the flows of a table whose match is within `m`.
    pub fn within(table: u8, m: &Match) -> Criteria {
        Criteria {
            table,
            matching: sparse(m),
            strict: None,
            cookie: 0,
            cookie_mask: 0,
            out_port: OfPort::NONE,
            out_group: GROUP_ANY,
            may_change_internal: false,
        }
    }

    pub(crate) fn from_request(r: &FlowRequest) -> Criteria {
        let deletes = matches!(r.command, FlowCommand::Delete | FlowCommand::DeleteStrict);
        let strict = matches!(r.command, FlowCommand::ModifyStrict | FlowCommand::DeleteStrict);
        Criteria {
            table: r.table,
            matching: r.matching.clone(),
            strict: strict.then_some(r.priority),
            cookie: r.cookie,
            cookie_mask: r.cookie_mask,
            out_port: if deletes { r.out_port } else { OfPort::NONE },
            out_group: if deletes { r.out_group } else { GROUP_ANY },
            may_change_internal: r.from_switch,
        }
    }

    /// The selected flows, for reading.
    pub(crate) fn select<'a>(&self, state: &'a State) -> Result<Vec<&'a Arc<Rule>>, OfError> {
        let mut out = Vec::new();
        for (_, table) in self.tables(state)? {
            self.select_in(table, &mut out);
        }
        in_order(&mut out);
        Ok(out)
    }

    /// The selected flows, for changing. Flows of internal tables are included only for requests of the switch itself. If a request
    /// selects only flows of internal tables that it may not change, an error is returned.
    pub(crate) fn select_to_change(&self, state: &State) -> Result<Vec<Arc<Rule>>, OfError> {
        let mut out = Vec::new();
        let mut refused = Vec::new();
        for (_, table) in self.tables(state)? {
            let list =
                if table.config.internal && !self.may_change_internal { &mut refused } else { &mut out };
            self.select_in(table, list);
        }
        if out.is_empty() && !refused.is_empty() {
            return Err(OfError::BrcEperm);
        }
        in_order(&mut out);
        Ok(out.into_iter().cloned().collect())
    }

    fn tables<'a>(&self, state: &'a State) -> Result<impl Iterator<Item = (usize, &'a Arc<Table>)>, OfError> {
        let wanted = self.table;
        if wanted != TABLE_ALL && usize::from(wanted) >= N_TABLES {
            return Err(OfError::BrcBadTableId);
        }
        Ok(state.tables.iter().enumerate().filter(move |(i, t)| match wanted {
            TABLE_ALL => !t.config.internal,
            one => usize::from(one) == *i,
        }))
    }

    fn select_in<'a>(&self, table: &'a Table, out: &mut Vec<&'a Arc<Rule>>) {
        let classifier = &table.classifier;
        match self.strict {
            Some(priority) => {
                out.extend(classifier.find_exact(&self.matching, priority).filter(|r| self.accepts(r)));
            }
            None => out.extend(classifier.iter_within(&self.matching).filter(|r| self.accepts(r))),
        }
    }

    /// Whether the criteria select flows of this table for reading.
    pub(crate) fn reads_table(&self, table: u8) -> bool {
        match self.table {
            TABLE_ALL => table != TABLE_INTERNAL,
            one => one == table,
        }
    }

    /// Whether the criteria select the flow with its current actions or, as far as the output port is concerned, with its earlier actions
    /// `before`.
    pub(crate) fn selects_now_or_before(&self, rule: &Rule, before: &[Action]) -> bool {
        self.reads_table(rule.table)
            && rule.matching.within(&self.matching)
            && self.accepts_with(rule, before)
    }

    /// Checks all criteria except table and match, and whether the flow is hidden.
    fn accepts(&self, rule: &Rule) -> bool {
        self.accepts_with(rule, &[])
    }

    fn accepts_with(&self, rule: &Rule, before: &[Action]) -> bool {
        let outputs = |actions: &[Action]| actions.iter().any(|a| a.outputs_to(self.out_port));
        (rule.cookie ^ self.cookie) & self.cookie_mask == 0
            && (!rule.is_hidden() || self.strict.is_some_and(|p| p > PRIORITY_MAX))
            && (self.out_port == OfPort::NONE || outputs(&rule.actions) || outputs(before))
            && (self.out_group == GROUP_ANY
                || rule.actions.iter().any(|a| a.outputs_to_group(self.out_group)))
    }
}

/// Sorts by table, then by the order in which the flows were added. The sort key is computed once for each flow, because a million
/// flows may be scattered in memory and each access may be a cache miss.
fn in_order(rules: &mut [&Arc<Rule>]) {
    rules.sort_by_cached_key(|r| (r.table, r.added));
}

impl From<&FlowStatsRequest> for Criteria {
    fn from(r: &FlowStatsRequest) -> Criteria {
        Criteria {
            cookie: r.cookie,
            cookie_mask: r.cookie_mask,
            out_port: r.out_port,
            out_group: r.out_group,
            ..Criteria::within(r.table, &r.matching)
        }
    }
}
