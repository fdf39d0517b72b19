//! Bundles: several changes that are applied together.
//!
//! The changes are executed in order on a copy of the state, which shares unchanged data with the original. If a change fails, the
//! copy is dropped; no other roll-back is needed. Readers see either all changes of a bundle or none.

use crate::flow_mod::StateEditor;
use crate::meter::MeterProvider;
use crate::ofproto::Ofproto;
use crate::request::FlowRequest;
use crate::rule_numbers::RuleNumbers;
use crate::state::State;
use crate::table_changes::TableChanges;
use crate::tables::{InternalRules, Tables};
use openflow::action::Action;
use openflow::error::OfError;
use openflow::group::GroupMod;
use openflow::meter::MeterMod;
use std::sync::Arc;
use units::Millis;

/// A bundle that is being tried. Dropping it discards its changes.
#[derive(Debug)]
pub struct Bundle {
    state: State,
    rule_numbers: RuleNumbers,
    changes: TableChanges,
    internal: InternalRules,
    meters: Option<MeterProvider>,
    version: u64,
    /// Generation of the state that was copied.
    base: u64,
}

impl Bundle {
    /// Executes a request to change flows on top of the earlier changes.
    pub fn flow_mod(&mut self, request: FlowRequest, now: Millis) -> Result<(), OfError> {
        self.editor(now).flow_mod(request)
    }

    /// Executes a group mod on top of the earlier changes.
    pub fn group_mod(&mut self, gm: &GroupMod, now: Millis) -> Result<(), OfError> {
        let mut editor = self.editor(now);
        editor.group_mod(gm)?;
        editor.delete_learned();
        Ok(())
    }

    /// Executes a meter mod on top of the earlier changes.
    pub fn meter_mod(&mut self, mm: &MeterMod, now: Millis) -> Result<(), OfError> {
        let meters = self.meters.clone();
        let mut editor = self.editor(now);
        editor.meter_mod(mm, meters.as_ref().map(MeterProvider::get))?;
        editor.delete_learned();
        Ok(())
    }

    /// Checks that the groups and meters to which the actions refer exist after the earlier changes.
    pub fn check_actions(&self, actions: &[Action]) -> Result<(), OfError> {
        self.state.check_actions(actions)
    }

    /// The tables after the earlier changes, for a packet-out at this position of the bundle.
    pub fn tables(&self) -> Arc<Tables> {
        Arc::new(Tables { version: self.version, state: self.state.clone(), internal: self.internal.clone() })
    }

    fn editor(&mut self, now: Millis) -> StateEditor<'_> {
        StateEditor {
            state: &mut self.state,
            rule_numbers: &mut self.rule_numbers,
            changes: &mut self.changes,
            now,
        }
    }
}

impl Ofproto {
    /// Begins a bundle on the current state.
    pub fn begin(&self) -> Bundle {
        Bundle {
            state: self.state.clone(),
            rule_numbers: self.rule_numbers.clone(),
            changes: TableChanges::default(),
            internal: self.internal.clone(),
            meters: self.meters.clone(),
            version: self.next_version(),
            base: self.generation,
        }
    }

    /// Applies a bundle.
    ///
    /// # Errors
    /// Returns an error if the state has changed since `begin`, because the results of the trial may be invalid then.
    pub fn commit(&mut self, bundle: Bundle, now: Millis) -> Result<TableChanges, OfError> {
        if bundle.base != self.generation {
            return Err(OfError::BfcMsgConflict);
        }
        self.state = bundle.state;
        self.rule_numbers = bundle.rule_numbers;
        self.generation += 1;
        self.configure_meters(&bundle.changes, now);
        Ok(bundle.changes)
    }
}
