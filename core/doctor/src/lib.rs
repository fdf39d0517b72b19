//! What in a host or in the configuration hurts a switch that polls, and the command that mends it.
//!
//! Facts in, findings out: who calls gathers [`Facts`], and [`diagnose`] judges them. A fact that could not be learned
//! is absent and gives no finding. What only matters to ports that poll is spoken of only where there are such ports,
//! or DPDK is asked for.

mod configuration;
mod cores;
mod devices;
pub mod facts;
mod level;
mod memory;
mod tuning;

pub use facts::Facts;
pub use level::Level;
use std::collections::BTreeSet;

/// One thing found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// See there.
    pub level: Level,
    /// What it is about, for scripts: a word that stays the same.
    pub subject: &'static str,
    /// What is wrong.
    pub text: String,
    /// The command that mends it, or that shows more where none can.
    pub mend: String,
}

impl Finding {
    fn new(level: Level, subject: &'static str, text: impl Into<String>, mend: impl Into<String>) -> Finding {
        Finding { level, subject, text: text.into(), mend: mend.into() }
    }
}

/// All findings, each once, the worst first.
pub fn diagnose(facts: &Facts) -> Vec<Finding> {
    let mut found = Vec::new();
    configuration::check(facts, &mut found);
    devices::check(facts, &mut found);
    memory::check(facts, &mut found);
    cores::check(facts, &mut found);
    let mut seen = BTreeSet::new();
    found.retain(|f| seen.insert((f.subject, f.text.clone())));
    found.sort_by_key(|f| f.level);
    found
}

/// Whether something has to be done: anything but advice.
pub fn needs_care(found: &[Finding]) -> bool {
    found.iter().any(|f| f.level != Level::Advice)
}

#[cfg(test)]
mod tests;
