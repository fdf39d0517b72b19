//! `Ofproto`: the owner of one bridge's OpenFlow state.
//!
//! One thread owns an `Ofproto` and changes its state; `publish` makes the changes visible to translations.
//! Publishing copies a few hundred pointers, whatever the number of flows.

use crate::criteria::Criteria;
use crate::flow_mod::{StateEditor, check_new_flow};
use crate::group::Group;
use crate::intern::Interner;
use crate::internal;
use crate::meter::MeterProvider;
use crate::references::Reference;
use crate::request::FlowRequest;
use crate::rule::Rule;
use crate::rule_numbers::RuleNumbers;
use crate::state::State;
use crate::table::Table;
use crate::table_changes::TableChanges;
use crate::tables::{InternalRules, Tables};
use cpu::KeyedHash64;
use openflow::action::Action;
use openflow::error::OfError;
use openflow::flow_mod::{FlowCommand, FlowMod};
use openflow::group::{GROUP_ALL, GROUP_MAX, GroupFeatures, GroupMod};
use openflow::meter::{METER_ALL, MeterCommand, MeterConfig, MeterMod};
use openflow::stats::{AggregateStats, FlowStats};
use std::sync::Arc;
use units::Millis;

/// The OpenFlow state of one bridge; see the module documentation.
#[derive(Debug)]
pub struct Ofproto {
    pub(crate) state: State,
    pub(crate) rule_numbers: RuleNumbers,
    interner: Interner,
    /// Incremented by every change.
    pub(crate) generation: u64,
    pub(crate) internal: InternalRules,
    pub(crate) meters: Option<MeterProvider>,
    /// The last call of `expire` has left flows that may have expired.
    pub(crate) has_more_to_expire: bool,
    published: Arc<Tables>,
    published_generation: u64,
}

impl Ofproto {
    /// Creates a state that has only the switch's own flows. `seed`: a secret from which the hash keys of the tables are derived.
    pub fn new(now: Millis, seed: u64) -> Ofproto {
        let mut state = State::new(KeyedHash64::new(seed));
        let (mut rule_numbers, mut interner) = (RuleNumbers::default(), Interner::default());
        let internal = internal::install(&mut state, &mut rule_numbers, &mut interner, now);
        let published = Arc::new(Tables { version: 1, state: state.clone(), internal: internal.clone() });
        Ofproto {
            state,
            rule_numbers,
            interner,
            generation: 0,
            internal,
            meters: None,
            has_more_to_expire: false,
            published,
            published_generation: 0,
        }
    }

    /// Publishes a new version if there were changes, and returns the current version.
    pub fn publish(&mut self) -> Arc<Tables> {
        if self.published_generation != self.generation {
            let version = self.next_version();
            self.published =
                Arc::new(Tables { version, state: self.state.clone(), internal: self.internal.clone() });
            self.published_generation = self.generation;
        }
        Arc::clone(&self.published)
    }

    /// The version that was published last; it may lack recent changes.
    pub fn published(&self) -> &Arc<Tables> {
        &self.published
    }

    pub(crate) fn next_version(&self) -> u64 {
        self.published.version + 1
    }

    /// Executes a flow mod. If an error is returned, nothing has changed.
    pub fn handle_flow_mod(&mut self, fm: &FlowMod, now: Millis) -> Result<TableChanges, OfError> {
        let request = self.request(fm);
        self.execute(request, now)
    }

    /// Converts a flow mod for execution.
    pub fn request(&mut self, fm: &FlowMod) -> FlowRequest {
        FlowRequest::new(fm, &mut self.interner)
    }

    /// Executes a request to change flows. If an error is returned, nothing has changed.
    pub fn execute(&mut self, request: FlowRequest, now: Millis) -> Result<TableChanges, OfError> {
        self.change(now, |c| c.flow_mod(request))
    }

    /// Checks a request to add a flow without executing it. Other requests pass.
    pub fn check_addition(&self, request: &FlowRequest) -> Result<(), OfError> {
        match request.command {
            FlowCommand::Add => check_new_flow(&self.state, request).map(drop),
            _ => Ok(()),
        }
    }

    /// Checks that the groups and meters to which the actions refer exist.
    pub fn check_actions(&self, actions: &[Action]) -> Result<(), OfError> {
        self.state.check_actions(actions)
    }

    /// Executes a group mod. If an error is returned, nothing has changed.
    pub fn handle_group_mod(&mut self, gm: &GroupMod, now: Millis) -> Result<TableChanges, OfError> {
        self.change(now, |c| c.group_mod(gm))
    }

    /// Adds or (strictly) deletes a flow of the switch itself. Such a flow may be hidden (priority above 65535), be in an internal table,
    /// or match internal fields. The priority and command in `fm` are ignored.
    pub fn handle_own_flow(
        &mut self,
        fm: &FlowMod,
        priority: u32,
        add: bool,
        now: Millis,
    ) -> Result<TableChanges, OfError> {
        let command = if add { FlowCommand::Add } else { FlowCommand::DeleteStrict };
        let fm = FlowMod { command, ..fm.clone() };
        let request = FlowRequest { priority, from_switch: true, ..self.request(&fm) };
        self.execute(request, now)
    }

    /// The number of flows, including the switch's own.
    pub fn flow_count(&self) -> usize {
        self.state.tables.iter().map(|table| table.classifier.len()).sum()
    }

    /// The number of groups.
    pub fn group_count(&self) -> usize {
        self.state.groups.values().count()
    }

    /// Deletes all flows except the switch's own, and all groups and meters. Used for example when the last controller is removed in
    /// standalone mode.
    pub fn flush(&mut self, now: Millis) -> TableChanges {
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
            c.flow_mod(request)?;
            c.group_mod(&groups)?;
            c.meter_mod(&meters, None)
        })
        .unwrap_or_default()
    }

    pub(crate) fn change(
        &mut self,
        now: Millis,
        f: impl FnOnce(&mut StateEditor<'_>) -> Result<(), OfError>,
    ) -> Result<TableChanges, OfError> {
        let mut changes = TableChanges::default();
        let mut editor = StateEditor {
            state: &mut self.state,
            rule_numbers: &mut self.rule_numbers,
            changes: &mut changes,
            now,
        };
        f(&mut editor)?;
        editor.delete_learned();
        if !changes.is_empty() {
            self.generation += 1;
            self.configure_meters(&changes, now);
        }
        Ok(changes)
    }

    /// The current state of a table.
    pub fn table(&self, table: u8) -> Option<&Table> {
        self.state.tables.get(table).map(|t| &**t)
    }

    /// The flows that a request selects, table by table.
    pub fn rules(&self, criteria: &Criteria) -> Result<Vec<Arc<Rule>>, OfError> {
        Ok(criteria.select(&self.state)?.into_iter().cloned().collect())
    }

    /// All flows of all tables, including hidden and internal ones (`bridge/dump-flows`).
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

    /// The current state of a group.
    pub fn group(&self, id: u32) -> Option<&Arc<Group>> {
        self.state.groups.get(&id)
    }

    /// One group, or for `GROUP_ALL` all groups, sorted by number.
    pub fn groups(&self, id: u32) -> Vec<Arc<Group>> {
        let mut out: Vec<Arc<Group>> = match id {
            GROUP_ALL => self.state.groups.values().cloned().collect(),
            id => self.state.groups.get(&id).cloned().into_iter().collect(),
        };
        out.sort_by_key(|g| g.id);
        out
    }

    /// As [`groups`](Self::groups), each with the number of flows that use it.
    pub fn groups_with_users(&self, id: u32) -> Vec<(Arc<Group>, u32)> {
        let with_users = |g: Arc<Group>| {
            let users = self.state.user_count(Reference::Group(g.id));
            (g, users)
        };
        self.groups(id).into_iter().map(with_users).collect()
    }

    /// `OFPMP_GROUP_FEATURES`. The caller has to fill in `actions`, because their encoding depends on the OpenFlow version.
    pub fn group_features(&self) -> GroupFeatures {
        GroupFeatures { types: 0xf, capabilities: 0x7, max_groups: [GROUP_MAX; 4], actions: [0; 4] }
    }
}
