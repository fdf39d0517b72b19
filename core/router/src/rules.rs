//! Policy rules: which routing tables are looked up for a packet, and in which order.

use crate::Prefix;
use crate::table::{TABLE_DEFAULT, TABLE_LOCAL, TABLE_MAIN};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// The priority of the rule for table `main`, as in the kernel.
const PRIORITY_MAIN: u32 = 0x7ffe;
/// The priority of the rule for table `default`, as in the kernel.
const PRIORITY_DEFAULT: u32 = 0x7fff;

/// A policy rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Rules with a lower number come first.
    pub priority: u32,
    /// The rule applies to packets whose source is not in `from`.
    pub invert: bool,
    /// The sources to which the rule applies. A prefix of length 0 means every source of the family.
    pub from: Prefix,
    /// The table to look up.
    pub table: u32,
    /// The rule was added by `ovs/route/rule/add`.
    pub user: bool,
}

impl Rule {
    /// A rule of the kernel for all packets of a family.
    pub fn for_all(ipv4: bool, priority: u32, table: u32) -> Rule {
        Rule { priority, invert: false, from: everything(ipv4), table, user: false }
    }

    fn matches(&self, source: IpAddr) -> bool {
        let inside = self.from.matches_all() || self.from.contains(source);
        self.from.is_ipv4() == source.is_ipv4() && inside != self.invert
    }
}

/// All addresses of a family.
pub(crate) fn everything(ipv4: bool) -> Prefix {
    Prefix::new(unspecified(ipv4), 0)
}

/// The unspecified address of a family.
pub(crate) fn unspecified(ipv4: bool) -> IpAddr {
    if ipv4 { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() }
}

/// The policy rules of both families, ordered by priority.
#[derive(Clone, Debug)]
pub struct Rules(Arc<Vec<Rule>>);

impl Default for Rules {
    fn default() -> Rules {
        let mut rules = Rules(Arc::default());
        rules.reset();
        rules
    }
}

impl Rules {
    /// Replaces the kernel's rules by the standard rules for the tables `local`, `main` and `default`.
    pub fn reset(&mut self) {
        self.clear_kernel();
        for ipv4 in [true, false] {
            self.add(Rule::for_all(ipv4, 0, TABLE_LOCAL));
            self.add(Rule::for_all(ipv4, PRIORITY_MAIN, TABLE_MAIN));
        }
        self.add(Rule::for_all(true, PRIORITY_DEFAULT, TABLE_DEFAULT));
    }

    /// Removes the kernel's rules.
    pub fn clear_kernel(&mut self) {
        Arc::make_mut(&mut self.0).retain(|r| r.user);
    }

    /// Removes a rule of the kernel.
    pub fn remove_kernel(&mut self, like: &Rule) {
        let at = self.0.iter().position(|r| r == like);
        if let Some(at) = at {
            Arc::make_mut(&mut self.0).remove(at);
        }
    }

    /// Adds a rule after the rules with the same priority.
    pub fn add(&mut self, rule: Rule) {
        let rules = Arc::make_mut(&mut self.0);
        let at = rules.partition_point(|r| r.priority <= rule.priority);
        rules.insert(at, rule);
    }

    /// The priority of a rule that is added without one: just before the last rule that has a free priority before it.
    pub fn free_priority(&self) -> u32 {
        let (mut free, mut previous) = (0, 0);
        for rule in self.0.iter().filter(|r| r.priority != 0) {
            if free == 0 || rule.priority - previous > 1 {
                free = rule.priority - 1;
            }
            previous = rule.priority;
        }
        free
    }

    /// Removes a user's rule; priority 0 matches every priority. Returns false if there is no such rule.
    pub fn remove(&mut self, like: &Rule) -> bool {
        let same = |r: &Rule| {
            let priority = like.priority == 0 || r.priority == like.priority;
            r.user && priority && (r.invert, r.from, r.table) == (like.invert, like.from, like.table)
        };
        let at = self.0.iter().position(same);
        at.map(|at| Arc::make_mut(&mut self.0).remove(at)).is_some()
    }

    /// All rules, ordered by priority.
    pub fn iter(&self) -> impl Iterator<Item = &Rule> {
        self.0.iter()
    }

    /// The tables to look up for packets from a source, in the order of the rules.
    pub(crate) fn tables(&self, source: IpAddr) -> impl Iterator<Item = u32> {
        self.0.iter().filter(move |r| r.matches(source)).map(|r| r.table)
    }

    /// Returns whether a rule refers to the table.
    pub fn names_table(&self, table: u32) -> bool {
        self.0.iter().any(|r| r.table == table)
    }
}
