//! One OpenFlow table: its rules, configuration and counters.

use crate::evict::Evictable;
use crate::rule::Rule;
use classifier::of::{Classifier, PrefixField};
use flow::{Flow, Subfield};
use openflow::table::TableMiss;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The configuration of a table.
#[derive(Clone, Debug, Default)]
pub struct TableConfig {
    /// Name for display; may be empty.
    pub name: String,
    /// Whether the name comes from the database; then a controller cannot change it.
    pub name_from_database: bool,
    /// Handling of table misses.
    pub miss: TableMiss,
    /// Maximum number of rules; `None`: no limit.
    pub max_flows: Option<u32>,
    /// Whether the database requests eviction when the table is full (`overflow_policy=evict`).
    pub evict_by_database: bool,
    /// Whether a controller requests eviction when the table is full (OpenFlow 1.4).
    pub evict_by_openflow: bool,
    /// The next vacancy event; `None` if no controller has requested vacancy events (OpenFlow 1.4).
    pub next_vacancy_event: Option<VacancyEvent>,
    /// The last configured vacancy thresholds in percent: down, up.
    pub vacancy_thresholds: (u8, u8),
    /// Rules with equal values in these fields form a group for fair eviction.
    pub eviction_fields: Vec<Subfield>,
    /// Whether the table is internal: OpenFlow requests cannot change it, and "all tables" does not include it.
    pub internal: bool,
}

/// The kind of the next vacancy event. "Down" and "up" events alternate, so that a table whose vacancy stays near a threshold is not
/// reported repeatedly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VacancyEvent {
    /// The vacancy falls below the lower threshold.
    Down,
    /// The vacancy rises above the upper threshold.
    Up,
}

impl TableConfig {
    /// Whether the table evicts flows when it is full.
    pub fn evicts(&self) -> bool {
        self.evict_by_database || self.evict_by_openflow
    }
}

/// The database's settings of a table (a row of `Flow_Table`).
#[derive(Clone, Debug, Default)]
pub struct TableSettings {
    /// `name`
    pub name: Option<String>,
    /// `flow_limit`
    pub max_flows: Option<u32>,
    /// Whether `overflow_policy` is `evict`.
    pub evict: bool,
    /// `groups`
    pub eviction_fields: Vec<Subfield>,
    /// `prefixes`; `None` if the row has none.
    pub prefixes: Option<Vec<PrefixField>>,
}

/// Look-up counters of a table. All versions of the table share them.
#[derive(Debug, Default)]
pub struct TableCounters {
    matched: AtomicU64,
    missed: AtomicU64,
}

/// One table.
#[derive(Clone, Debug, Default)]
pub struct Table {
    pub(crate) classifier: Classifier<Rule>,
    /// Number of hidden rules.
    pub(crate) hidden: usize,
    pub(crate) config: Arc<TableConfig>,
    pub(crate) counters: Arc<TableCounters>,
    /// The flows that may be evicted; `None` until the table evicts one.
    pub(crate) evictable: Option<Evictable>,
}

impl Table {
    /// Returns the matching rule of highest priority. Adds the bits on which the look-up depends to `wildcards`.
    pub fn lookup(&self, flow: &Flow, wildcards: Option<&mut Flow>) -> Option<&Arc<Rule>> {
        self.classifier.lookup(flow, wildcards)
    }

    /// Inserts a rule. Returns the rule with the same match and priority that it replaces, if any.
    pub(crate) fn insert(&mut self, rule: Arc<Rule>) -> Option<Arc<Rule>> {
        let is_hidden = rule.is_hidden();
        if let Some(evictable) = &mut self.evictable {
            evictable.insert(&rule);
        }
        let old = self.classifier.insert(rule);
        self.hidden += usize::from(is_hidden && old.is_none());
        if let (Some(evictable), Some(old)) = (&mut self.evictable, &old) {
            evictable.remove(old);
        }
        old
    }

    /// Removes a rule that the table contains.
    pub(crate) fn remove(&mut self, rule: &Rule) {
        self.classifier.remove(&rule.matching, rule.priority);
        self.hidden -= usize::from(rule.is_hidden());
        if let Some(evictable) = &mut self.evictable {
            evictable.remove(rule);
        }
    }

    /// Removes all rules.
    pub(crate) fn clear(&mut self) {
        (self.classifier, self.hidden, self.evictable) = (self.classifier.emptied(), 0, None);
    }

    /// The flow to evict next; `None` if the table does not evict, or no flow may be evicted. The first call sorts all flows.
    pub(crate) fn victim(&mut self) -> Option<Arc<Rule>> {
        if !self.config.evicts() {
            return None;
        }
        let sort = || Evictable::new(&self.config.eviction_fields, self.classifier.iter());
        self.evictable.get_or_insert_with(sort).first()
    }

    /// To be called after the timeouts of a rule have changed.
    pub(crate) fn timeouts_changed(&mut self, rule: &Arc<Rule>) {
        if let Some(evictable) = &mut self.evictable {
            evictable.update(rule);
        }
    }

    /// To be called after a change of the settings of eviction: the next eviction sorts all flows again.
    pub(crate) fn eviction_changed(&mut self) {
        self.evictable = None;
    }

    /// Number of rules that are not hidden.
    pub(crate) fn visible(&self) -> usize {
        self.classifier.len() - self.hidden
    }

    /// The rules.
    pub fn classifier(&self) -> &Classifier<Rule> {
        &self.classifier
    }

    /// The configuration.
    pub fn config(&self) -> &TableConfig {
        &self.config
    }

    /// Number of packets that matched a rule.
    pub fn matched(&self) -> u64 {
        self.counters.matched.load(Relaxed)
    }

    /// Number of packets that matched no rule.
    pub fn missed(&self) -> u64 {
        self.counters.missed.load(Relaxed)
    }

    /// Counts packets that matched a rule of this table. Any thread may call this.
    pub fn credit_matched(&self, packets: u64) {
        self.counters.matched.fetch_add(packets, Relaxed);
    }

    /// Counts packets that matched no rule of this table. Any thread may call this.
    pub fn credit_missed(&self, packets: u64) {
        self.counters.missed.fetch_add(packets, Relaxed);
    }

    /// Free space in percent; for a table without a limit always 100.
    pub fn vacancy(&self) -> u8 {
        let n = self.classifier.len() as u64;
        match self.config.max_flows.map(u64::from) {
            None | Some(0) => 100,
            Some(max) => (max.saturating_sub(n) * 100 / max) as u8,
        }
    }

    /// Whether the table has more rules than its limit, which was lowered.
    pub(crate) fn is_overfull(&self) -> bool {
        self.config.max_flows.is_some_and(|max| self.classifier.len() > max as usize)
    }

    pub(crate) fn is_full(&self) -> bool {
        self.config.max_flows.is_some_and(|max| self.classifier.len() >= max as usize)
    }
}
