//! OpenFlow tables, groups, bundles and expiry, with versioned snapshots.
//!
//! [`Ofproto`] owns the state: it executes flow, group and meter mods, alone or in bundles, expires flows, and
//! answers statistics requests. It publishes [`Tables`]: an immutable version that translations use for look-ups. All
//! containers are persistent (a copy shares its data until one of the copies is written), so snapshots and trials of bundles are cheap.
//! Sources: OpenFlow 1.0.2 §4.6, 1.3.5 §6, 1.4.1 §6.9 (bundles).

mod bundle;
mod config;
mod criteria;
mod duration;
mod evict;
mod expirable;
mod expiry;
mod features;
mod flow_mod;
mod group;
mod group_mod;
mod intern;
mod internal;
mod learn;
mod learn_limits;
mod meter;
mod meter_mod;
mod monitor;
mod ofproto;
mod prepare;
mod query;
mod references;
mod request;
mod rule;
mod rule_numbers;
mod state;
mod table;
mod table_changes;
mod table_list;
mod table_numbers;
mod tables;
pub mod tlv;

#[cfg(test)]
mod tests;

pub use bundle::Bundle;
pub use criteria::Criteria;
pub use duration::duration;
pub use group::Group;
pub use internal::REASON_IMPLICIT_MISS;
pub use meter::Meter;
pub use monitor::{FlowMonitors, ReportedFlow};
pub use ofproto::Ofproto;
pub use prepare::{Preparer, check_consistency, check_flow_mod};
pub use request::FlowRequest;
pub use rule::{PRIORITY_MAX, Rule, RuleStats};
pub use table::{Table, TableConfig, TableCounters, TableSettings, VacancyEvent};
pub use table_changes::{FlowChange, TableChanges};
pub use table_numbers::{N_TABLES, TABLE_ALL, TABLE_INTERNAL};
pub use tables::{InternalRules, Tables};
