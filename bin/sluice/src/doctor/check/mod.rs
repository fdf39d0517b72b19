//! The checks: they derive findings from facts and do not access the host.
//!
//! A fact that could not be determined is absent and causes no finding. Problems that affect only polled ports are
//! reported only if there are such ports or DPDK is enabled.

mod configuration;
mod cores;
pub mod counters;
mod devices;
mod memory;
mod overlay;
mod tuning;

use super::facts::Facts;
use super::finding::{Finding, Level};
use std::collections::BTreeSet;

/// Returns all findings without duplicates, worst first.
pub fn diagnose(facts: &Facts) -> Vec<Finding> {
    let mut found = Vec::new();
    configuration::check(facts, &mut found);
    devices::check(facts, &mut found);
    overlay::check(facts, &mut found);
    memory::check(facts, &mut found);
    cores::check(facts, &mut found);
    counters::check(facts, &mut found);
    let mut seen = BTreeSet::new();
    found.retain(|f| seen.insert((f.subject, f.text.clone())));
    found.sort_by_key(|f| f.level);
    found
}

/// Whether any finding is more severe than advice.
pub fn has_problems_or_warnings(found: &[Finding]) -> bool {
    found.iter().any(|f| f.level != Level::Advice)
}

#[cfg(test)]
mod tests;
