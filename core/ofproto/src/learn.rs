//! Flows added by `learn` actions.
//!
//! Consecutive packets often learn the same flow. If an identical flow exists, only its time of modification is updated, which restarts
//! its hard timeout: nothing is published and no megaflow is revalidated.

use crate::ofproto::Ofproto;
use crate::request::sparse;
use crate::rule::Rule;
use crate::state::{State, flows_with_cookie};
use crate::table_changes::TableChanges;
use crate::tables::Tables;
use crate::tlv;
use openflow::error::OfError;
use openflow::flow_mod::{FlowCommand, FlowFlags, FlowMod, NO_BUFFER, TABLE_ALL};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use units::Millis;

impl Ofproto {
    /// Applies the flow mod that a translation made for a `learn` action. If an identical flow exists, only its time of modification
    /// changes. Changes nothing if the limit is reached. `used`: when the packet arrived; `limit`: maximum number of flows of the table
    /// with the same cookie, 0: no limit.
    ///
    /// # Errors
    /// `learn` cannot make this flow mod, or the execution of the flow mod fails.
    pub fn learn(
        &mut self,
        fm: &FlowMod,
        limit: u32,
        used: Millis,
        now: Millis,
    ) -> Result<TableChanges, OfError> {
        let plain = fm.command == FlowCommand::ModifyStrict && fm.table != TABLE_ALL;
        if !plain || fm.flags.reset_counts || fm.buffer_id != NO_BUFFER {
            return Err(OfError::FmfcUnknown);
        }
        let with_tlv_layout;
        let fm = match tlv::uses_option_fields(&fm.matching, &fm.actions) {
            true => {
                with_tlv_layout = self.with_tlv_layout(fm)?;
                &with_tlv_layout
            }
            false => fm,
        };
        if let Some(rule) = self.state.find_unchanged(fm) {
            rule.modified.fetch_max(used.0, Relaxed);
            return Ok(TableChanges::default());
        }
        // Requests of several packets may arrive out of order; a request of an older packet must not replace the result of a newer one.
        if self.state.find_same(fm).is_some_and(|rule| rule.modified() > used) {
            return Ok(TableChanges::default());
        }
        if !self.state.is_below_limit(fm, limit)? {
            return Ok(TableChanges::default());
        }
        let changes = self.handle_flow_mod(fm, now)?;
        for change in &changes.flows {
            change.rule().modified.store(used.0, Relaxed);
        }
        Ok(changes)
    }
}

impl Tables {
    /// Whether the flow of a `learn` action exists or could be added. `limit`: maximum number of flows of the table with the same cookie,
    /// 0: no limit.
    pub fn may_learn(&self, fm: &FlowMod, limit: u32) -> bool {
        limit == 0 || self.has_learned(fm) || self.state.is_below_limit(fm, limit).unwrap_or(false)
    }

    /// Whether the flow that `learn` would add exists.
    pub fn has_learned(&self, fm: &FlowMod) -> bool {
        self.state.find_unchanged(fm).is_some()
    }
}

impl State {
    fn is_below_limit(&self, fm: &FlowMod, limit: u32) -> Result<bool, OfError> {
        if limit == 0 {
            return Ok(true);
        }
        let key = (fm.new_cookie, fm.table);
        // Not counted: the action is in no rule, but in a packet-out, or its rule was removed meanwhile.
        let flows = self.learn_limits.flows(key).or_else(|| flows_with_cookie(&self.tables, key));
        Ok(flows.ok_or(OfError::BrcBadTableId)? < limit)
    }

    /// The flow with the match and priority of this flow mod.
    fn find_same(&self, fm: &FlowMod) -> Option<&Arc<Rule>> {
        let table = self.tables.get(fm.table)?;
        table.classifier().find_exact(&sparse(&fm.matching), fm.priority.into())
    }

    /// The flow that this flow mod would add or modify, if it exists and the flow mod would not change it.
    fn find_unchanged(&self, fm: &FlowMod) -> Option<&Arc<Rule>> {
        let rule = self.find_same(fm)?;
        let same = rule.idle_timeout() == fm.idle_timeout
            && rule.hard_timeout() == fm.hard_timeout
            && rule.importance == fm.importance
            && rule.flags == FlowFlags { emergency: false, ..fm.flags }
            && (!fm.modify_cookie || fm.new_cookie == rule.cookie)
            && *rule.actions == *fm.actions;
        same.then_some(rule)
    }
}
