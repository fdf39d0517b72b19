//! Bundles: many changes as one.
//!
//! The changes are tried in order on a copy of the state, which shares all that they do not touch. The first that fails
//! ends it, and the copy is thrown away: that is the whole roll-back. Readers see all of a bundle or nothing.

use crate::effects::Effects;
use crate::flow_mod::Changing;
use crate::meter::Provider;
use crate::ofproto::Ofproto;
use crate::request::FlowRequest;
use crate::state::State;
use crate::supply::Supply;
use crate::tables::{InternalRules, Tables};
use openflow::action::Action;
use openflow::error::OfError;
use openflow::group::GroupMod;
use openflow::meter::MeterMod;
use std::sync::Arc;
use units::Millis;

/// A bundle that is being tried. Drop it to forget it.
#[derive(Debug)]
pub struct Bundle {
    state: State,
    supply: Supply,
    effects: Effects,
    internal: InternalRules,
    meters: Option<Provider>,
    version: u64,
    /// Which state it began with.
    base: u64,
}

impl Bundle {
    /// Executes a request to change flows after those before.
    pub fn flow_mod(&mut self, request: &FlowRequest, now: Millis) -> Result<(), OfError> {
        self.changing(now).flow_mod(request)
    }

    /// Executes a group mod after the changes before.
    pub fn group_mod(&mut self, gm: &GroupMod, now: Millis) -> Result<(), OfError> {
        let mut changing = self.changing(now);
        changing.group_mod(gm)?;
        changing.forget_learned();
        Ok(())
    }

    /// Executes a meter mod after the changes before.
    pub fn meter_mod(&mut self, mm: &MeterMod, now: Millis) -> Result<(), OfError> {
        let meters = self.meters.clone();
        let mut changing = self.changing(now);
        changing.meter_mod(mm, meters.as_ref().map(Provider::get))?;
        changing.forget_learned();
        Ok(())
    }

    /// All that these actions name is there after the changes before.
    pub fn check_actions(&self, actions: &[Action]) -> Result<(), OfError> {
        self.state.check_actions(actions)
    }

    /// What a packet sees that is sent after the changes before.
    pub fn tables(&self) -> Arc<Tables> {
        Arc::new(Tables { version: self.version, state: self.state.clone(), internal: self.internal.clone() })
    }

    fn changing(&mut self, now: Millis) -> Changing<'_> {
        Changing { state: &mut self.state, supply: &mut self.supply, effects: &mut self.effects, now }
    }
}

impl Ofproto {
    /// Begins a bundle on the state of now.
    pub fn begin(&self) -> Bundle {
        Bundle {
            state: self.state.clone(),
            supply: self.supply.clone(),
            effects: Effects::default(),
            internal: self.internal.clone(),
            meters: self.meters.clone(),
            version: self.next_version(),
            base: self.generation,
        }
    }

    /// Makes a bundle real.
    ///
    /// # Errors
    /// The state has changed since `begin`: what was tried may not hold any more.
    pub fn commit(&mut self, bundle: Bundle, now: Millis) -> Result<Effects, OfError> {
        if bundle.base != self.generation {
            return Err(OfError::BfcMsgConflict);
        }
        self.state = bundle.state;
        self.supply = bundle.supply;
        self.generation += 1;
        self.configure_meters(&bundle.effects, now);
        Ok(bundle.effects)
    }
}
