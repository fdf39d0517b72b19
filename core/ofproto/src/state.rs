//! The OpenFlow state itself: persistent, so that a copy costs a few pointers and a bundle can be tried on one.

use crate::group::Group;
use crate::rule::{Rule, for_each_action};
use crate::table::Table;
use crate::tables::N_TABLES;
use classifier::of::Classifier;
use openflow::action::Action;
use rpds::HashTrieMapSync;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Everything that flow and group mods change.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) tables: Vec<Arc<Table>>,
    pub(crate) groups: HashTrieMapSync<u32, Arc<Group>>,
    /// The rules with a timeout, by id.
    pub(crate) expirable: HashTrieMapSync<u64, Arc<Rule>>,
    /// How many rules name a group.
    group_users: HashTrieMapSync<u32, u32>,
}

impl State {
    pub(crate) fn new() -> State {
        State {
            tables: (0..N_TABLES).map(|_| Arc::default()).collect(),
            groups: HashTrieMapSync::new_sync(),
            expirable: HashTrieMapSync::new_sync(),
            group_users: HashTrieMapSync::new_sync(),
        }
    }

    /// A table to be changed.
    pub(crate) fn table_mut(&mut self, table: u8) -> &mut Table {
        Arc::make_mut(&mut self.tables[usize::from(table)])
    }

    /// Adds a rule, in place of the one with its match and priority, if any.
    pub(crate) fn insert(&mut self, rule: Arc<Rule>) -> Option<Arc<Rule>> {
        self.index(&rule, true);
        let old = self.table_mut(rule.table).classifier.insert(rule);
        if let Some(old) = &old {
            self.index(old, false);
        }
        old
    }

    /// Takes a rule out; false if it is not there (any more).
    pub(crate) fn remove(&mut self, rule: &Rule) -> bool {
        let there = self.tables[usize::from(rule.table)].classifier.find_exact(&rule.matching, rule.priority);
        if there.is_none_or(|r| r.id != rule.id) {
            return false;
        }
        self.table_mut(rule.table).classifier.remove(&rule.matching, rule.priority);
        self.index(rule, false);
        true
    }

    /// Takes out rules that are all there. A table that loses all its rules is emptied at once.
    pub(crate) fn remove_many(&mut self, rules: &[Arc<Rule>]) {
        let mut leaving = [0; N_TABLES];
        rules.iter().for_each(|r| leaving[usize::from(r.table)] += 1);
        for (table, leaving) in self.tables.iter_mut().zip(&leaving) {
            if *leaving > 0 && *leaving == table.classifier.len() {
                let fields = table.classifier.prefix_fields();
                Arc::make_mut(table).classifier = Classifier::new(&fields);
            }
        }
        for rule in rules {
            if !self.tables[usize::from(rule.table)].classifier.is_empty() {
                self.table_mut(rule.table).classifier.remove(&rule.matching, rule.priority);
            }
            self.index(rule, false);
        }
    }

    /// How many rules name this group.
    pub(crate) fn group_users(&self, id: u32) -> u32 {
        self.group_users.get(&id).copied().unwrap_or(0)
    }

    fn index(&mut self, rule: &Rule, came: bool) {
        if !came {
            self.expirable.remove_mut(&rule.id);
        }
        for id in groups_of(&rule.actions) {
            let n = self.group_users(id);
            match if came { n + 1 } else { n.saturating_sub(1) } {
                0 => drop(self.group_users.remove_mut(&id)),
                n => self.group_users.insert_mut(id, n),
            }
        }
    }

    /// Remembers a rule that has a timeout. Separate from `insert`, which does not own an `Arc` afterwards.
    pub(crate) fn watch_timeouts(&mut self, rule: &Arc<Rule>) {
        if rule.has_timeout() {
            self.expirable.insert_mut(rule.id, Arc::clone(rule));
        }
    }
}

/// The groups that actions name, each once.
fn groups_of(actions: &[Action]) -> BTreeSet<u32> {
    let mut out = BTreeSet::new();
    for_each_action(actions, &mut |a| {
        if let Action::Group(id) = a {
            out.insert(*id);
        }
    });
    out
}
