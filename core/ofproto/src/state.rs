//! The OpenFlow state. Its containers are persistent, so that copying the state copies only a few pointers and a bundle can be tried on a
//! copy.

use crate::expirable::Expirable;
use crate::group::Group;
use crate::learn_limits::{CookieInTable, LearnLimits};
use crate::meter::Meter;
use crate::references::Reference;
use crate::rule::{Rule, for_each_action};
use crate::table::Table;
use crate::table_list::TableList;
use crate::table_numbers::N_TABLES;
use classifier::of::{Classifier, PrefixField};
use cpu::KeyedHash64;
use flow::TlvTable;
use openflow::action::Action;
use openflow::error::OfError;
use rpds::HashTrieMapSync;
use std::collections::BTreeSet;
use std::hash::Hash;
use std::sync::Arc;

/// The state that flow, group and meter mods change.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) tables: TableList,
    pub(crate) groups: HashTrieMapSync<u32, Arc<Group>>,
    /// Rules with a timeout.
    pub(crate) expirable: Expirable,
    pub(crate) meters: HashTrieMapSync<u32, Arc<Meter>>,
    /// The mapping of tunnel options to fields.
    pub(crate) tlv: Arc<TlvTable>,
    /// Number of rules that refer to each group, meter or tunnel option field.
    users: HashTrieMapSync<Reference, u32>,
    /// For each cookie and table, the number of rules whose `learn` actions with `delete_learned` add flows with this
    /// cookie to this table.
    learners: HashTrieMapSync<CookieInTable, u32>,
    /// Numbers of flows by cookie, for `learn` actions with a limit.
    pub(crate) learn_limits: LearnLimits,
    /// Keys of `learners` whose count has become zero and whose learned flows are not deleted yet.
    dead_cookies: Vec<CookieInTable>,
}

impl State {
    /// Creates an empty state. `chain`: the hash function of the tables.
    pub(crate) fn new(chain: KeyedHash64) -> State {
        let table =
            || Table { classifier: Classifier::new(&PrefixField::DEFAULT, chain), ..Table::default() };
        State {
            tables: TableList::new(table),
            groups: HashTrieMapSync::new_sync(),
            expirable: Expirable::new(),
            meters: HashTrieMapSync::new_sync(),
            tlv: Arc::default(),
            users: HashTrieMapSync::new_sync(),
            learners: HashTrieMapSync::new_sync(),
            learn_limits: LearnLimits::new(),
            dead_cookies: Vec::new(),
        }
    }

    /// A table, mutable; copied first if another version of the state uses it.
    pub(crate) fn table_mut(&mut self, table: u8) -> &mut Table {
        self.tables.get_mut(table)
    }

    /// Adds a rule, and returns the rule with the same match and priority that it replaces, if any.
    pub(crate) fn insert(&mut self, rule: Arc<Rule>) -> Option<Arc<Rule>> {
        self.update_indexes(&rule, true);
        self.expirable.insert(&rule);
        let old = self.table_mut(rule.table).insert(rule);
        if let Some(old) = &old {
            self.update_indexes(old, false);
        }
        old
    }

    /// Removes a rule. Returns false if the state does not contain it.
    pub(crate) fn remove(&mut self, rule: &Rule) -> bool {
        let there = self.tables[rule.table].classifier.find_exact(&rule.matching, rule.priority);
        if there.is_none_or(|r| r.id != rule.id) {
            return false;
        }
        self.table_mut(rule.table).remove(rule);
        self.update_indexes(rule, false);
        true
    }

    /// Removes rules, all of which must exist. A table that loses all its rules is replaced by an empty table, which is faster than
    /// removing the rules one by one.
    pub(crate) fn remove_many(&mut self, rules: &[Arc<Rule>]) {
        let mut leaving = [0; N_TABLES];
        rules.iter().for_each(|r| leaving[usize::from(r.table)] += 1);
        for (number, leaving) in (0..N_TABLES as u8).zip(leaving) {
            if leaving > 0 && leaving == self.tables[number].classifier.len() {
                self.table_mut(number).clear();
            }
        }
        for rule in rules {
            if !self.tables[rule.table].classifier.is_empty() {
                self.table_mut(rule.table).remove(rule);
            }
            self.update_indexes(rule, false);
        }
    }

    /// Checks that the groups and meters to which the actions refer exist.
    pub(crate) fn check_actions(&self, actions: &[Action]) -> Result<(), OfError> {
        let mut result = Ok(());
        for_each_action(actions, &mut |a| match Reference::by(a) {
            Some(Reference::Group(id)) if !self.groups.contains_key(&id) => {
                result = Err(OfError::BacBadOutGroup)
            }
            Some(Reference::Meter(id)) if !self.meters.contains_key(&id) => {
                result = Err(OfError::MmfcInvalidMeter);
            }
            _ => {}
        });
        result
    }

    /// The number of rules that refer to this object.
    pub(crate) fn user_count(&self, what: Reference) -> u32 {
        self.users.get(&what).copied().unwrap_or(0)
    }

    fn update_indexes(&mut self, rule: &Rule, added: bool) {
        if !added {
            self.expirable.remove(rule.id);
        }
        let (mut references, mut learns, mut limited) = (BTreeSet::new(), Vec::new(), Vec::new());
        for_each_action(&rule.actions, &mut |a| match a {
            Action::Learn(l) => {
                learns.extend(l.delete_learned.then_some((l.cookie, l.table)));
                limited.extend((l.limit != 0).then_some((l.cookie, l.table)));
            }
            other => references.extend(Reference::by(other)),
        });
        self.update_learn_limits(rule, &limited, added);
        let fields = rule.tlv_fields();
        if fields != 0 {
            references.extend((0..64).filter(|i| fields >> i & 1 != 0).map(Reference::Tlv));
        }
        for what in references {
            adjust_count(&mut self.users, what, added);
        }
        for learned in learns {
            if adjust_count(&mut self.learners, learned, added) == 0 {
                self.dead_cookies.push(learned);
            }
        }
    }

    /// Counts a rule for limits of `learn` actions. `limited`: the cookies and tables that its own actions with a limit name. An added rule is
    /// not in its table yet, a removed one no longer.
    fn update_learn_limits(&mut self, rule: &Rule, limited: &[CookieInTable], added: bool) {
        if !added {
            self.learn_limits.count(rule, false);
            return limited.iter().for_each(|key| self.learn_limits.remove_learner(*key));
        }
        for &key in limited {
            let tables = &self.tables;
            self.learn_limits.add_learner(key, || flows_with_cookie(tables, key).unwrap_or(0));
        }
        self.learn_limits.count(rule, true);
    }

    /// Returns a cookie and table whose learned flows have to be deleted, because no rule adds such flows any more.
    pub(crate) fn next_dead_cookie(&mut self) -> Option<CookieInTable> {
        while let Some(learned) = self.dead_cookies.pop() {
            if !self.learners.contains_key(&learned) {
                return Some(learned);
            }
        }
        None
    }
}

/// Searches a table for its flows with a cookie, except hidden ones, and counts them. `None`: there is no such table.
pub(crate) fn flows_with_cookie(tables: &TableList, (cookie, table): CookieInTable) -> Option<u32> {
    let rules = tables.get(table)?.classifier().iter();
    Some(rules.filter(|r| r.cookie == cookie && !r.is_hidden()).count() as u32)
}

/// Increments or decrements a count and returns it; a count of zero is removed.
fn adjust_count<K: Eq + Hash + Copy>(counts: &mut HashTrieMapSync<K, u32>, key: K, up: bool) -> u32 {
    let old = counts.get(&key).copied().unwrap_or(0);
    let new = if up { old + 1 } else { old.saturating_sub(1) };
    match new {
        0 => drop(counts.remove_mut(&key)),
        n => counts.insert_mut(key, n),
    }
    new
}
