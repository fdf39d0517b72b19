//! All datapaths: one for each type that bridges use, and those created by commands.

use crate::backer::Backer;
use crate::unbridged::UnbridgedDatapath;
use openflow_service::Bridge;
use sampling::Exporters;
use std::collections::BTreeMap;
use std::sync::Arc;

/// All datapaths. Iterators return the datapaths of bridges first.
pub struct Datapaths {
    /// The exporters of all bridges.
    pub exporters: Arc<Exporters>,
    /// The datapaths that bridges use, by type.
    with_bridges: BTreeMap<String, Backer>,
    /// The datapaths created by commands, by full name.
    unbridged: BTreeMap<String, UnbridgedDatapath>,
}

impl Datapaths {
    /// No datapaths.
    pub(crate) fn new(exporters: Arc<Exporters>) -> Datapaths {
        Datapaths { exporters, with_bridges: BTreeMap::new(), unbridged: BTreeMap::new() }
    }

    /// The datapath that bridges of a type use.
    pub fn of(&self, datapath_type: &str) -> Option<&Backer> {
        self.with_bridges.get(datapath_type)
    }

    /// Like [`of`](Self::of), mutable.
    pub fn of_mut(&mut self, datapath_type: &str) -> Option<&mut Backer> {
        self.with_bridges.get_mut(datapath_type)
    }

    /// The datapath that a bridge uses.
    pub fn of_bridge(&self, bridge: &Bridge) -> Option<&Backer> {
        self.of(&bridge.config.datapath_type)
    }

    /// Like [`of_bridge`](Self::of_bridge), mutable.
    pub fn of_bridge_mut(&mut self, bridge: &Bridge) -> Option<&mut Backer> {
        self.of_mut(&bridge.config.datapath_type)
    }

    /// The datapaths that bridges use, by type.
    pub fn with_bridges(&self) -> impl ExactSizeIterator<Item = &Backer> {
        self.with_bridges.values()
    }

    /// Like [`with_bridges`](Self::with_bridges), mutable.
    pub fn with_bridges_mut(&mut self) -> impl Iterator<Item = &mut Backer> {
        self.with_bridges.values_mut()
    }

    /// The datapath of bridges, if there is exactly one.
    pub fn only(&self) -> Option<&Backer> {
        self.with_bridges.values().next().filter(|_| self.with_bridges.len() == 1)
    }

    /// All datapaths.
    pub fn all(&self) -> impl Iterator<Item = &Backer> {
        self.with_bridges.values().chain(self.unbridged.values().map(|u| &u.backer))
    }

    /// Like [`all`](Self::all), mutable.
    pub fn all_mut(&mut self) -> impl Iterator<Item = &mut Backer> {
        self.with_bridges.values_mut().chain(self.unbridged.values_mut().map(|u| &mut u.backer))
    }

    /// The datapaths created by commands.
    pub fn unbridged(&self) -> impl Iterator<Item = &UnbridgedDatapath> {
        self.unbridged.values()
    }

    /// Like [`unbridged`](Self::unbridged), mutable.
    pub fn unbridged_mut(&mut self) -> impl Iterator<Item = &mut UnbridgedDatapath> {
        self.unbridged.values_mut()
    }

    /// The datapath with a full name, if a command created it.
    pub fn unbridged_named(&self, name: &str) -> Option<&UnbridgedDatapath> {
        self.unbridged.get(name)
    }

    /// Like [`unbridged_named`](Self::unbridged_named), mutable.
    pub fn unbridged_named_mut(&mut self, name: &str) -> Option<&mut UnbridgedDatapath> {
        self.unbridged.get_mut(name)
    }

    /// Adds the datapath of a type for bridges.
    pub(crate) fn add(&mut self, backer: Backer) {
        self.with_bridges.insert(backer.datapath_type.clone(), backer);
    }

    /// Adds a datapath created by a command.
    pub fn add_unbridged(&mut self, unbridged: UnbridgedDatapath) {
        self.unbridged.insert(unbridged.backer.name(), unbridged);
    }

    /// Removes a datapath created by a command.
    pub fn remove_unbridged(&mut self, name: &str) -> Option<UnbridgedDatapath> {
        self.unbridged.remove(name)
    }

    /// Removes the datapaths of types that no bridge has.
    pub(crate) fn retain_used(&mut self, bridges: &BTreeMap<String, Bridge>) {
        self.with_bridges.retain(|kind, _| bridges.values().any(|b| b.config.datapath_type == *kind));
    }

    /// Removes the datapaths of bridges and ends the exporters.
    pub(crate) fn close(&mut self) {
        self.with_bridges.clear();
        self.exporters.close();
    }
}
