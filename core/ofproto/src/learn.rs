//! Flows that `learn` actions make.
//!
//! The same packet stream asks for the same flow again and again. A flow that is already as asked is only marked as
//! modified, which puts off its hard timeout: nothing is published and no megaflow is looked at again.

use crate::criteria::Criteria;
use crate::effects::Effects;
use crate::ofproto::Ofproto;
use crate::request::sparse;
use crate::rule::Rule;
use crate::state::State;
use crate::tables::Tables;
use crate::tlv;
use flow::Match;
use openflow::error::OfError;
use openflow::flow_mod::{FlowCommand, FlowFlags, FlowMod, NO_BUFFER, TABLE_ALL};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use units::Millis;

/// What became of a flow to be learned.
#[derive(Debug, Default)]
pub struct Learned {
    /// What changed; nothing where the flow was there already, or the limit is reached.
    pub effects: Effects,
    /// The flow is not there: as many flows have its cookie as may have.
    pub limit_reached: bool,
}

impl Ofproto {
    /// Applies the flow mod that translation made of a `learn` action; `used`: when the packet came; `limit`: how many flows
    /// of its table may have its cookie, 0 for any number.
    ///
    /// # Errors
    /// It does not look like one that `learn` makes, or any error of a flow mod.
    pub fn learn(&mut self, fm: &FlowMod, limit: u32, used: Millis, now: Millis) -> Result<Learned, OfError> {
        let plain = fm.command == FlowCommand::ModifyStrict && fm.table != TABLE_ALL;
        if !plain || fm.flags.reset_counts || fm.buffer_id != NO_BUFFER {
            return Err(OfError::FmfcUnknown);
        }
        let laid_out;
        let fm = match tlv::uses_fields(&fm.matching, &fm.actions) {
            true => {
                laid_out = self.laid_out(fm)?;
                &laid_out
            }
            false => fm,
        };
        if let Some(rule) = self.state.learned(fm) {
            rule.modified.fetch_max(used.0, Relaxed);
            return Ok(Learned::default());
        }
        // Who is asked later may have been asked for by an earlier packet: the last packet decides.
        if self.state.twin(fm).is_some_and(|rule| rule.modified() > used) {
            return Ok(Learned::default());
        }
        if !self.state.has_room(fm, limit)? {
            return Ok(Learned { limit_reached: true, ..Learned::default() });
        }
        let effects = self.handle_flow_mod(fm, now)?;
        for change in &effects.flows {
            change.rule().modified.store(used.0, Relaxed);
        }
        Ok(Learned { effects, limit_reached: false })
    }
}

impl Tables {
    /// Whether `learn` would find its flow or room for it: no more than `limit` flows of its table with its cookie, 0 for
    /// any number.
    pub fn may_learn(&self, fm: &FlowMod, limit: u32) -> bool {
        limit == 0 || self.has_learned(fm) || self.state.has_room(fm, limit).unwrap_or(false)
    }

    /// Whether the flow that `learn` would make is there.
    pub fn has_learned(&self, fm: &FlowMod) -> bool {
        self.state.learned(fm).is_some()
    }
}

impl State {
    fn has_room(&self, fm: &FlowMod, limit: u32) -> Result<bool, OfError> {
        let criteria = Criteria {
            cookie: fm.new_cookie,
            cookie_mask: u64::MAX,
            ..Criteria::within(fm.table, &Match::CATCHALL)
        };
        Ok(limit == 0 || criteria.select(self)?.len() < limit as usize)
    }

    /// The flow with the match and priority of this flow mod.
    fn twin(&self, fm: &FlowMod) -> Option<&Arc<Rule>> {
        let table = self.tables.get(usize::from(fm.table))?;
        table.classifier().find_exact(&sparse(&fm.matching), fm.priority.into())
    }

    /// The flow that this flow mod would make, where there is one and it would not change.
    fn learned(&self, fm: &FlowMod) -> Option<&Arc<Rule>> {
        let rule = self.twin(fm)?;
        let same = rule.idle_timeout() == fm.idle_timeout
            && rule.hard_timeout() == fm.hard_timeout
            && rule.importance == fm.importance
            && rule.flags == FlowFlags { emergency: false, ..fm.flags }
            && (!fm.modify_cookie || fm.new_cookie == rule.cookie)
            && *rule.actions == *fm.actions;
        same.then_some(rule)
    }
}
