//! All datapaths: those that bridges use, one of each type, and those that commands made.

use crate::backer::Backer;
use crate::unbridged::UnbridgedDatapath;
use openflow_service::Bridge;
use std::collections::BTreeMap;

/// See the module. In iterations those of bridges come first.
#[derive(Default)]
pub struct Datapaths {
    /// By type.
    of_bridges: BTreeMap<String, Backer>,
    /// By their full names.
    unbridged: BTreeMap<String, UnbridgedDatapath>,
}

impl Datapaths {
    /// The datapath of a type.
    pub fn of(&self, kind: &str) -> Option<&Backer> {
        self.of_bridges.get(kind)
    }

    /// The same, to be changed.
    pub fn of_mut(&mut self, kind: &str) -> Option<&mut Backer> {
        self.of_bridges.get_mut(kind)
    }

    /// The datapath that a bridge uses.
    pub fn of_bridge(&self, bridge: &Bridge) -> Option<&Backer> {
        self.of(&bridge.config.datapath_type)
    }

    /// The same, to be changed.
    pub fn of_bridge_mut(&mut self, bridge: &Bridge) -> Option<&mut Backer> {
        self.of_mut(&bridge.config.datapath_type)
    }

    /// Those that bridges use, by type.
    pub fn of_bridges(&self) -> impl ExactSizeIterator<Item = &Backer> {
        self.of_bridges.values()
    }

    /// The same, to be changed.
    pub fn of_bridges_mut(&mut self) -> impl Iterator<Item = &mut Backer> {
        self.of_bridges.values_mut()
    }

    /// The only one that bridges use, if there is one.
    pub fn only(&self) -> Option<&Backer> {
        self.of_bridges.values().next().filter(|_| self.of_bridges.len() == 1)
    }

    /// The types of those that bridges use.
    pub fn kinds(&self) -> Vec<String> {
        self.of_bridges.keys().cloned().collect()
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &Backer> {
        self.of_bridges.values().chain(self.unbridged.values().map(|u| &u.backer))
    }

    /// The same, to be changed.
    pub fn all_mut(&mut self) -> impl Iterator<Item = &mut Backer> {
        self.of_bridges.values_mut().chain(self.unbridged.values_mut().map(|u| &mut u.backer))
    }

    /// Those that commands made.
    pub fn unbridged(&self) -> impl Iterator<Item = &UnbridgedDatapath> {
        self.unbridged.values()
    }

    /// The same, to be changed.
    pub fn unbridged_mut(&mut self) -> impl Iterator<Item = &mut UnbridgedDatapath> {
        self.unbridged.values_mut()
    }

    /// One that a command made, by its full name.
    pub fn made(&self, name: &str) -> Option<&UnbridgedDatapath> {
        self.unbridged.get(name)
    }

    /// The same, to be changed.
    pub fn made_mut(&mut self, name: &str) -> Option<&mut UnbridgedDatapath> {
        self.unbridged.get_mut(name)
    }

    /// Adds the one that bridges of its type use.
    pub(crate) fn add(&mut self, backer: Backer) {
        self.of_bridges.insert(backer.kind.clone(), backer);
    }

    /// Adds one that a command made.
    pub fn add_made(&mut self, made: UnbridgedDatapath) {
        self.unbridged.insert(made.backer.name(), made);
    }

    /// Takes one away that a command made.
    pub fn remove_made(&mut self, name: &str) -> Option<UnbridgedDatapath> {
        self.unbridged.remove(name)
    }

    /// Keeps those for which a bridge is there.
    pub(crate) fn retain_used(&mut self, bridges: &BTreeMap<String, Bridge>) {
        self.of_bridges.retain(|kind, _| bridges.values().any(|b| b.config.datapath_type == *kind));
    }

    /// Ends those that bridges use.
    pub(crate) fn close(&mut self) {
        self.of_bridges.clear();
    }
}
