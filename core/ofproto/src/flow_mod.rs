//! Executes a flow mod on the state.
//!
//! **Invariant**: if an error is returned, nothing has changed; all checks come before the first change.
//! Sources: OpenFlow 1.0.2 §4.6, OpenFlow 1.3.5 §6.4; where these do not specify something, the behaviour is that of Open vSwitch.

use crate::criteria::Criteria;
use crate::request::FlowRequest;
use crate::rule::{Rule, RuleStats, conjunctions};
use crate::rule_numbers::RuleNumbers;
use crate::state::State;
use crate::table_changes::{FlowChange, TableChanges};
use crate::table_numbers::{N_TABLES, TABLE_ALL};
use flow::Match;
use openflow::error::OfError;
use openflow::flow_mod::{FlowCommand, FlowFlags, RemovedReason};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU64};
use units::Millis;

/// Changes a state and records the changes.
pub(crate) struct StateEditor<'a> {
    pub(crate) state: &'a mut State,
    pub(crate) rule_numbers: &'a mut RuleNumbers,
    pub(crate) changes: &'a mut TableChanges,
    pub(crate) now: Millis,
}

impl StateEditor<'_> {
    /// Executes one flow mod, and then deletes the learned flows that no rule learns any more.
    pub(crate) fn flow_mod(&mut self, r: FlowRequest) -> Result<(), OfError> {
        self.flow_mod_alone(r)?;
        self.delete_learned();
        Ok(())
    }

    /// Deletes the flows that were learned by `learn` actions with `delete_learned`, if no rule has such an action any more.
    pub(crate) fn delete_learned(&mut self) {
        while let Some((cookie, table)) = self.state.next_dead_cookie() {
            let criteria =
                Criteria { cookie, cookie_mask: u64::MAX, ..Criteria::within(table, &Match::CATCHALL) };
            // Selection fails for a table that does not exist or that only the switch may change; such a table has no learned flows.
            let rules = criteria.select_to_change(self.state).unwrap_or_default();
            self.remove_all(rules, RemovedReason::Delete);
        }
    }

    fn flow_mod_alone(&mut self, r: FlowRequest) -> Result<(), OfError> {
        match r.command {
            FlowCommand::Add => {
                let table = check_new_flow(self.state, &r)?;
                self.add(r, table)
            }
            FlowCommand::Modify | FlowCommand::ModifyStrict => {
                let table = check_new_flow(self.state, &r)?;
                let rules = Criteria::from_request(&r).select_to_change(self.state)?;
                if !rules.is_empty() {
                    self.state.check_actions(&r.actions)?;
                    rules.into_iter().for_each(|old| self.modify(&r, old));
                    Ok(())
                } else if r.may_add() {
                    self.add(r, table)
                } else {
                    Ok(())
                }
            }
            FlowCommand::Delete | FlowCommand::DeleteStrict => {
                let rules = Criteria::from_request(&r).select_to_change(self.state)?;
                self.remove_all(rules, RemovedReason::Delete);
                Ok(())
            }
        }
    }

    /// Removes a flow.
    pub(crate) fn remove(&mut self, rule: Arc<Rule>, reason: RemovedReason) {
        if self.state.remove(&rule) {
            self.changes.push(FlowChange::Removed { rule, reason });
        }
    }

    /// Removes flows, all of which must exist.
    pub(crate) fn remove_all(&mut self, rules: Vec<Arc<Rule>>, reason: RemovedReason) {
        self.state.remove_many(&rules);
        rules.into_iter().for_each(|rule| self.changes.push(FlowChange::Removed { rule, reason }));
    }

    fn add(&mut self, r: FlowRequest, table: u8) -> Result<(), OfError> {
        self.state.check_actions(&r.actions)?;
        let t = &self.state.tables[table];
        let old = t.classifier.find_exact(&r.matching, r.priority).cloned();
        if old.is_none() {
            if r.flags.check_overlap
                && t.classifier.iter_overlapping(&r.matching, r.priority).next().is_some()
            {
                return Err(OfError::FmfcOverlap);
            }
            if t.is_full() {
                let victim = self.state.table_mut(table).victim().ok_or(OfError::FmfcTableFull)?;
                self.remove(victim, RemovedReason::Eviction);
            }
        }
        let stats = match &old {
            Some(old) => old.stats_for_successor(!r.flags.reset_counts),
            None => Arc::new(RuleStats::new(self.now)),
        };
        let rule = self.new_rule(r, table, old.as_ref().map(|o| o.cookie), stats);
        self.insert_rule(rule, true);
        Ok(())
    }

    fn new_rule(
        &mut self,
        r: FlowRequest,
        table: u8,
        old_cookie: Option<u64>,
        stats: Arc<RuleStats>,
    ) -> Rule {
        let mut matching = r.matching;
        self.state.tables[table].classifier.share_mask(&mut matching);
        let id = self.rule_numbers.next();
        Rule {
            id,
            added: id,
            matching,
            priority: r.priority,
            conjunctions: conjunctions(&r.actions),
            idle_timeout: AtomicU16::new(r.idle_timeout),
            hard_timeout: AtomicU16::new(r.hard_timeout),
            modified: AtomicU64::new(self.now.0),
            stats,
            layout: r.layout,
            table,
            cookie: if r.new_cookie == u64::MAX { old_cookie.unwrap_or(u64::MAX) } else { r.new_cookie },
            importance: r.importance,
            flags: FlowFlags { emergency: false, ..r.flags },
            actions: r.actions,
            created: self.now,
        }
    }

    fn modify(&mut self, r: &FlowRequest, old: Arc<Rule>) {
        let keeps = !r.modify_cookie || r.new_cookie == u64::MAX;
        let cookie = if keeps { old.cookie } else { r.new_cookie };
        let stats = old.stats_for_successor(!r.flags.reset_counts);
        let rule = old.successor(self.rule_numbers.next(), cookie, Arc::clone(&r.actions), stats, self.now);
        self.insert_rule(rule, false);
    }

    fn insert_rule(&mut self, rule: Rule, added: bool) {
        let new = Arc::new(rule);
        self.changes.push(match self.state.insert(Arc::clone(&new)) {
            Some(old) => FlowChange::Replaced { old, new, added },
            None => FlowChange::Added(new),
        });
    }
}

/// Checks whether the flow may be added, and returns its table.
pub(crate) fn check_new_flow(state: &State, r: &FlowRequest) -> Result<u8, OfError> {
    let table = if r.table == TABLE_ALL { 0 } else { r.table };
    let config = &state.tables.get(table).ok_or(OfError::BrcBadTableId)?.config;
    debug_assert!(usize::from(table) < N_TABLES);
    if config.internal && !r.from_switch {
        return Err(OfError::BrcEperm);
    }
    if !r.from_switch && r.reserved {
        return Err(OfError::BrcEperm);
    }
    if r.has_buffer {
        return Err(OfError::BrcBufferUnknown);
    }
    Ok(table)
}
