//! One OpenFlow table: its rules, how it is configured, and how often it was consulted.

use crate::rule::Rule;
use classifier::of::{Classifier, PrefixField};
use flow::{Flow, Subfield};
use openflow::table::TableMiss;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How a table is configured.
#[derive(Clone, Debug, Default)]
pub struct TableConfig {
    /// For people; may be empty.
    pub name: String,
    /// The name was given by the database, which a controller cannot overrule.
    pub name_from_database: bool,
    /// What happens on a miss.
    pub miss: TableMiss,
    /// How many rules it takes; `None`: any number.
    pub max_flows: Option<u32>,
    /// The database asks to make room by evicting (`overflow_policy=evict`).
    pub evict_by_database: bool,
    /// A controller asks to make room by evicting (OpenFlow 1.4).
    pub evict_by_openflow: bool,
    /// A controller asks to be told when it fills up or empties (OpenFlow 1.4).
    pub vacancy: Option<VacancyEvents>,
    /// Thresholds of vacancy as they were given last, in percent: down, up.
    pub vacancy_thresholds: (u8, u8),
    /// Rules with equal values in these fields are one group when it comes to evicting fairly.
    pub eviction_fields: Vec<Subfield>,
    /// OpenFlow requests cannot change it, and "all tables" does not mean it.
    pub internal: bool,
}

/// Which event is next: each happens only after the other, so that a table that stays near a threshold is not reported
/// again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VacancyEvents {
    /// It falls below the lower threshold.
    Down,
    /// It rises above the upper one.
    Up,
}

impl TableConfig {
    /// A full table makes room.
    pub fn evicts(&self) -> bool {
        self.evict_by_database || self.evict_by_openflow
    }
}

/// What the database says about a table (a row of `Flow_Table`).
#[derive(Clone, Debug, Default)]
pub struct TableSettings {
    /// `name`
    pub name: Option<String>,
    /// `flow_limit`
    pub max_flows: Option<u32>,
    /// `overflow_policy` is `evict`.
    pub evict: bool,
    /// `groups`
    pub eviction_fields: Vec<Subfield>,
    /// `prefixes`; `None` where the row says nothing.
    pub prefixes: Option<Vec<PrefixField>>,
}

/// How often a table was consulted. Kept over all changes.
#[derive(Debug, Default)]
pub struct TableCounters {
    matched: AtomicU64,
    missed: AtomicU64,
}

/// One table.
#[derive(Clone, Debug, Default)]
pub struct Table {
    pub(crate) classifier: Classifier<Rule>,
    pub(crate) config: Arc<TableConfig>,
    pub(crate) counters: Arc<TableCounters>,
}

impl Table {
    /// The best rule that matches. Adds the bits that decided it to `wildcards`.
    pub fn lookup(&self, flow: &Flow, wildcards: Option<&mut Flow>) -> Option<&Arc<Rule>> {
        self.classifier.lookup(flow, wildcards)
    }

    /// As `lookup`; rules whose conjunctions led to the result are added to `parts`.
    pub fn lookup_with_parts<'a>(
        &'a self,
        flow: &Flow,
        wildcards: Option<&mut Flow>,
        parts: &mut Vec<&'a Arc<Rule>>,
    ) -> Option<&'a Arc<Rule>> {
        self.classifier.lookup_with_parts(flow, wildcards, parts)
    }

    /// The rules themselves.
    pub fn classifier(&self) -> &Classifier<Rule> {
        &self.classifier
    }

    /// How it is configured.
    pub fn config(&self) -> &TableConfig {
        &self.config
    }

    /// Packets that a rule matched.
    pub fn matched(&self) -> u64 {
        self.counters.matched.load(Relaxed)
    }

    /// Packets that no rule matched.
    pub fn missed(&self) -> u64 {
        self.counters.missed.load(Relaxed)
    }

    /// Counts packets for which a flow was found here. Any thread may call it.
    pub fn credit_matched(&self, packets: u64) {
        self.counters.matched.fetch_add(packets, Relaxed);
    }

    /// Counts packets for which none was found. Any thread may call it.
    pub fn credit_missed(&self, packets: u64) {
        self.counters.missed.fetch_add(packets, Relaxed);
    }

    /// How much room there is, in percent; a table without a limit is always empty.
    pub fn vacancy(&self) -> u8 {
        let n = self.classifier.len() as u64;
        match self.config.max_flows.map(u64::from) {
            None | Some(0) => 100,
            Some(max) => (max.saturating_sub(n) * 100 / max) as u8,
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.config.max_flows.is_some_and(|max| self.classifier.len() >= max as usize)
    }
}
