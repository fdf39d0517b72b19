//! `Ofproto`: the owner of one bridge's OpenFlow state.
//!
//! One thread owns it. Changes are made on its own state and become visible to translators with `publish`, which
//! costs some hundred pointers, however many flows there are.

use crate::alike::Alike;
use crate::criteria::Criteria;
use crate::effects::Effects;
use crate::flow_mod::{Changing, check_new_flow};
use crate::group::Group;
use crate::internal;
use crate::meter::Provider;
use crate::request::FlowRequest;
use crate::rule::Rule;
use crate::state::{Named, State};
use crate::supply::Supply;
use crate::table::Table;
use crate::tables::{InternalRules, Tables};
use cpu::Chain;
use openflow::action::Action;
use openflow::error::OfError;
use openflow::flow_mod::{FlowCommand, FlowMod};
use openflow::group::{GROUP_ALL, GROUP_MAX, GroupDesc, GroupFeatures, GroupMod, GroupStats};
use openflow::meter::{METER_ALL, MeterCommand, MeterConfig, MeterMod};
use openflow::stats::{AggregateStats, FlowStats};
use std::sync::Arc;
use units::Millis;

/// One bridge's OpenFlow state. See the module.
#[derive(Debug)]
pub struct Ofproto {
    pub(crate) state: State,
    pub(crate) supply: Supply,
    alike: Alike,
    /// Grows with every change.
    pub(crate) generation: u64,
    pub(crate) internal: InternalRules,
    pub(crate) meters: Option<Provider>,
    published: Arc<Tables>,
    published_generation: u64,
}

impl Ofproto {
    /// No flows but the switch's own. `seed`: a secret of the process, for the hashes of the tables.
    pub fn new(now: Millis, seed: u64) -> Ofproto {
        let mut state = State::new(Chain::new(seed));
        let (mut supply, mut alike) = (Supply::default(), Alike::default());
        let internal = internal::install(&mut state, &mut supply, &mut alike, now);
        let published = Arc::new(Tables { version: 1, state: state.clone(), internal: internal.clone() });
        Ofproto {
            state,
            supply,
            alike,
            generation: 0,
            internal,
            meters: None,
            published,
            published_generation: 0,
        }
    }

    /// The newest version that readers may see. A new one is made if there were changes.
    pub fn publish(&mut self) -> Arc<Tables> {
        if self.published_generation != self.generation {
            let version = self.next_version();
            self.published =
                Arc::new(Tables { version, state: self.state.clone(), internal: self.internal.clone() });
            self.published_generation = self.generation;
        }
        Arc::clone(&self.published)
    }

    /// The version that readers see now.
    pub fn published(&self) -> &Arc<Tables> {
        &self.published
    }

    pub(crate) fn next_version(&self) -> u64 {
        self.published.version + 1
    }

    /// Executes a flow mod. An error means that nothing has changed.
    pub fn handle_flow_mod(&mut self, fm: &FlowMod, now: Millis) -> Result<Effects, OfError> {
        let request = self.request(fm);
        self.execute(&request, now)
    }

    /// A flow mod, ready to be executed.
    pub fn request(&mut self, fm: &FlowMod) -> FlowRequest {
        FlowRequest::new(fm, &mut self.alike)
    }

    /// Executes a request to change flows. An error means that nothing has changed.
    pub fn execute(&mut self, request: &FlowRequest, now: Millis) -> Result<Effects, OfError> {
        self.change(now, |c| c.flow_mod(request))
    }

    /// Whether a flow that is to be added may be: what can be said of it before anything changes.
    pub fn check_addition(&self, request: &FlowRequest) -> Result<(), OfError> {
        match request.command {
            FlowCommand::Add => check_new_flow(&self.state, request).map(drop),
            _ => Ok(()),
        }
    }

    /// All that these actions name is there.
    pub fn check_actions(&self, actions: &[Action]) -> Result<(), OfError> {
        self.state.check_actions(actions)
    }

    /// Executes a group mod. An error means that nothing has changed.
    pub fn handle_group_mod(&mut self, gm: &GroupMod, now: Millis) -> Result<Effects, OfError> {
        self.change(now, |c| c.group_mod(gm))
    }

    /// Adds, or deletes (strictly), a flow of the switch itself, which may be hidden (priority above 65535), in an internal
    /// table, or match internal fields. Priority and command of `fm` do not count.
    pub fn handle_own_flow(
        &mut self,
        fm: &FlowMod,
        priority: u32,
        add: bool,
        now: Millis,
    ) -> Result<Effects, OfError> {
        let command = if add { FlowCommand::Add } else { FlowCommand::DeleteStrict };
        let fm = FlowMod { command, ..fm.clone() };
        let request = FlowRequest { priority, internal: true, ..self.request(&fm) };
        self.execute(&request, now)
    }

    /// Deletes every flow but the switch's own, and every group and meter, as when the last controller is gone in
    /// standalone mode.
    pub fn flush(&mut self, now: Millis) -> Effects {
        let flows = FlowMod { command: FlowCommand::Delete, ..FlowMod::default() };
        let groups = GroupMod {
            command: openflow::group::GroupCommand::Delete,
            group: GROUP_ALL,
            ..GroupMod::default()
        };
        let config = MeterConfig { meter: METER_ALL, ..MeterConfig::default() };
        let meters = MeterMod { command: MeterCommand::Delete, config };
        let request = self.request(&flows);
        self.change(now, |c| {
            c.flow_mod(&request)?;
            c.group_mod(&groups)?;
            c.meter_mod(&meters, None)
        })
        .unwrap_or_default()
    }

    pub(crate) fn change(
        &mut self,
        now: Millis,
        f: impl FnOnce(&mut Changing<'_>) -> Result<(), OfError>,
    ) -> Result<Effects, OfError> {
        let mut effects = Effects::default();
        let mut changing =
            Changing { state: &mut self.state, supply: &mut self.supply, effects: &mut effects, now };
        f(&mut changing)?;
        changing.forget_learned();
        if !effects.is_empty() {
            self.generation += 1;
            self.configure_meters(&effects, now);
        }
        Ok(effects)
    }

    /// A table as it is now.
    pub fn table(&self, table: u8) -> Option<&Table> {
        self.state.tables.get(usize::from(table)).map(|t| &**t)
    }

    /// The flows that a request means, table by table.
    pub fn rules(&self, criteria: &Criteria) -> Result<Vec<Arc<Rule>>, OfError> {
        Ok(criteria.select(&self.state)?.into_iter().cloned().collect())
    }

    /// All flows of all tables, hidden and internal ones too (`bridge/dump-flows`).
    pub fn all_rules(&self) -> impl Iterator<Item = &Arc<Rule>> {
        self.state.tables.iter().flat_map(|t| t.classifier().iter())
    }

    /// `OFPMP_FLOW`
    pub fn flow_stats(&self, criteria: &Criteria, now: Millis) -> Result<Vec<FlowStats>, OfError> {
        Ok(criteria.select(&self.state)?.into_iter().map(|r| r.stats(now)).collect())
    }

    /// `OFPMP_AGGREGATE`
    pub fn aggregate(&self, criteria: &Criteria) -> Result<AggregateStats, OfError> {
        self.state.aggregate(criteria)
    }

    /// A group as it is now.
    pub fn group(&self, id: u32) -> Option<&Arc<Group>> {
        self.state.groups.get(&id)
    }

    /// Descriptions of one group or, for `GROUP_ALL`, of all by number.
    pub fn group_desc(&self, id: u32) -> Vec<GroupDesc> {
        self.select_groups(id).iter().map(|g| g.desc()).collect()
    }

    /// Counters of one group or, for `GROUP_ALL`, of all by number.
    pub fn group_stats(&self, id: u32, now: Millis) -> Vec<GroupStats> {
        self.select_groups(id).iter().map(|g| g.stats(self.state.users(Named::Group(g.id)), now)).collect()
    }

    /// `OFPMP_GROUP_FEATURES`; which actions buckets may have is left to the codec's user.
    pub fn group_features(&self) -> GroupFeatures {
        GroupFeatures { types: 0xf, capabilities: 0x7, max_groups: [GROUP_MAX; 4], actions: [0; 4] }
    }

    fn select_groups(&self, id: u32) -> Vec<&Arc<Group>> {
        let mut out: Vec<&Arc<Group>> = match id {
            GROUP_ALL => self.state.groups.values().collect(),
            id => self.state.groups.get(&id).into_iter().collect(),
        };
        out.sort_by_key(|g| g.id);
        out
    }
}
