//! The OpenFlow state itself: persistent, so that a copy costs a few pointers and a bundle can be tried on one.

use crate::group::Group;
use crate::rule::{Rule, for_each_action};
use crate::table::Table;
use crate::tables::N_TABLES;
use classifier::of::Classifier;
use openflow::action::Action;
use rpds::HashTrieMapSync;
use std::collections::BTreeSet;
use std::hash::Hash;
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
    /// How many rules learn flows with this cookie into this table, which are to go with the last of them.
    teachers: HashTrieMapSync<(u64, u8), u32>,
    /// Cookies and tables that have just lost their last teacher.
    orphans: Vec<(u64, u8)>,
}

impl State {
    pub(crate) fn new() -> State {
        State {
            tables: (0..N_TABLES).map(|_| Arc::default()).collect(),
            groups: HashTrieMapSync::new_sync(),
            expirable: HashTrieMapSync::new_sync(),
            group_users: HashTrieMapSync::new_sync(),
            teachers: HashTrieMapSync::new_sync(),
            orphans: Vec::new(),
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
        let (mut groups, mut taught) = (BTreeSet::new(), Vec::new());
        for_each_action(&rule.actions, &mut |a| match a {
            Action::Group(id) => drop(groups.insert(*id)),
            Action::Learn(l) if l.delete_learned => taught.push((l.cookie, l.table)),
            _ => {}
        });
        for id in groups {
            step(&mut self.group_users, id, came);
        }
        for pupil in taught {
            if step(&mut self.teachers, pupil, came) == 0 {
                self.orphans.push(pupil);
            }
        }
    }

    /// A cookie and table whose flows have nobody left who teaches them.
    pub(crate) fn next_orphan(&mut self) -> Option<(u64, u8)> {
        while let Some(pupil) = self.orphans.pop() {
            if !self.teachers.contains_key(&pupil) {
                return Some(pupil);
            }
        }
        None
    }

    /// Remembers a rule that has a timeout. Separate from `insert`, which does not own an `Arc` afterwards.
    pub(crate) fn watch_timeouts(&mut self, rule: &Arc<Rule>) {
        if rule.has_timeout() {
            self.expirable.insert_mut(rule.id, Arc::clone(rule));
        }
    }
}

/// Counts one up or down; what counts zero is not kept.
fn step<K: Eq + Hash + Copy>(counts: &mut HashTrieMapSync<K, u32>, key: K, up: bool) -> u32 {
    let old = counts.get(&key).copied().unwrap_or(0);
    let new = if up { old + 1 } else { old.saturating_sub(1) };
    match new {
        0 => drop(counts.remove_mut(&key)),
        n => counts.insert_mut(key, n),
    }
    new
}
