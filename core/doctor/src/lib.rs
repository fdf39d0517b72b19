//! Reports problems of the host and the configuration that cost performance or break features of a polling switch,
//! each with the command that fixes it.
//!
//! The caller collects [`Facts`], and [`diagnose`] returns findings. A fact that could not be determined is absent
//! and gives no finding. Problems that affect only polled ports are reported only if there are such ports or DPDK is
//! enabled.

mod configuration;
mod cores;
pub mod counters;
mod devices;
pub mod facts;
mod level;
mod memory;
mod overlay;
mod tuning;

pub use facts::Facts;
pub use level::Level;
use std::collections::BTreeSet;

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Its severity.
    pub level: Level,
    /// The subject, a stable word for scripts.
    pub subject: &'static str,
    /// The problem.
    pub text: String,
    /// The command that fixes it; if there is none, a command that shows more.
    pub mend: String,
}

impl Finding {
    fn new(level: Level, subject: &'static str, text: impl Into<String>, mend: impl Into<String>) -> Finding {
        Finding { level, subject, text: text.into(), mend: mend.into() }
    }
}

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
pub fn needs_care(found: &[Finding]) -> bool {
    found.iter().any(|f| f.level != Level::Advice)
}

#[cfg(test)]
mod tests;
