//! What the log and the rows say of settings that do nothing, or not what they say.
//!
//! The log hears of each once, and again when its value changes or it comes back; a row that asks for a part of the switch
//! that is not there says so as long as it asks. On the main thread.

use crate::reconfigure::LOG;
use crate::switch::Switch;
use config::settings::check::{Checker, Finding, Problem, TYPE};
use ovsdb::Uuid;
use std::collections::{BTreeMap, BTreeSet};

/// The columns of a row that ask in vain, by row: the text for its `error` or `status` column.
pub(crate) type InVain = BTreeMap<Uuid, String>;

impl Switch {
    /// Looks at all rows, and tells what was not there before.
    pub(crate) fn tell_settings(&mut self) {
        let mut found: BTreeSet<Finding> = BTreeSet::new();
        self.in_vain.clear();
        for checker in Checker::of_all_tables() {
            for row in self.db.replica.rows(checker.table()) {
                let findings = checker.row(|column| row.datum(column), |kind| self.netdevs.is_dummy(kind));
                // A port that is not made for its type says so itself; in tests of translation it is made.
                let findings = findings.into_iter().filter(|f| f.name != TYPE);
                for finding in findings {
                    note(&mut self.in_vain, row.uuid(), &finding);
                    found.insert(finding);
                }
            }
        }
        // Scripts that test Open vSwitch look for warnings that it does not give.
        let loud = |finding: &Finding| finding.problem.is_warning() && !self.options.dummy_mode();
        for finding in found.difference(&self.told) {
            if loud(finding) {
                runtime::warn!(LOG, "{finding}");
            } else {
                runtime::info!(LOG, "{finding}");
            }
        }
        self.told = found;
    }
}

fn note(in_vain: &mut InVain, row: Uuid, finding: &Finding) {
    if !matches!(finding.problem, Problem::NotBuilt(_)) {
        return;
    }
    let text = Finding { row: String::new(), ..finding.clone() }.to_string();
    in_vain
        .entry(row)
        .and_modify(|all| {
            all.push_str("; ");
            all.push_str(&text);
        })
        .or_insert(text);
}
