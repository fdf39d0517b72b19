//! Flows that `learn` actions make.
//!
//! The same packet stream asks for the same flow again and again. A flow that is already as asked is only marked as
//! modified, which puts off its hard timeout: nothing is published and no megaflow is looked at again.

use crate::effects::Effects;
use crate::ofproto::Ofproto;
use crate::request::sparse;
use crate::rule::Rule;
use openflow::error::OfError;
use openflow::flow_mod::{FlowCommand, FlowFlags, FlowMod, NO_BUFFER, TABLE_ALL};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use units::Millis;

impl Ofproto {
    /// Applies the flow mod that translation made of a `learn` action; `used`: when the packet came.
    ///
    /// # Errors
    /// It does not look like one that `learn` makes, or any error of a flow mod.
    pub fn learn(&mut self, fm: &FlowMod, used: Millis, now: Millis) -> Result<Effects, OfError> {
        let plain = fm.command == FlowCommand::ModifyStrict && fm.table != TABLE_ALL;
        if !plain || fm.flags.reset_counts || fm.buffer_id != NO_BUFFER {
            return Err(OfError::FmfcUnknown);
        }
        if let Some(rule) = self.learned(fm) {
            rule.modified.fetch_max(used.0, Relaxed);
            return Ok(Effects::default());
        }
        self.handle_flow_mod(fm, now)
    }

    /// The flow that this flow mod would make, where there is one and it would not change.
    fn learned(&self, fm: &FlowMod) -> Option<&Arc<Rule>> {
        let table = self.state.tables.get(usize::from(fm.table))?;
        let rule = table.classifier().find_exact(&sparse(&fm.matching), fm.priority.into())?;
        let same = rule.idle_timeout() == fm.idle_timeout
            && rule.hard_timeout() == fm.hard_timeout
            && rule.importance == fm.importance
            && rule.flags == FlowFlags { emergency: false, ..fm.flags }
            && (!fm.modify_cookie || fm.new_cookie == rule.cookie)
            && *rule.actions == *fm.actions;
        same.then_some(rule)
    }
}
