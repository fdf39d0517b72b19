//! A word in the log about settings that do nothing, or not what they say.
//!
//! Each is told once, and again when its value changes or it comes back. On the main thread.

use crate::reconfigure::LOG;
use crate::switch::Switch;
use config::settings::check::{Checker, Finding, Problem};
use std::collections::BTreeSet;

impl Switch {
    /// Looks at all rows, and tells what was not there before.
    pub(crate) fn tell_settings(&mut self) {
        let mut found: BTreeSet<Finding> = BTreeSet::new();
        for checker in Checker::of_all_tables() {
            for row in self.db.replica.rows(checker.table()) {
                found.extend(checker.row(|column| row.datum(column), |kind| self.netdevs.is_dummy(kind)));
            }
        }
        // Scripts that test Open vSwitch look for warnings that it does not give.
        let loud = |finding: &Finding| match finding.problem {
            Problem::NotBuilt(_) => true,
            _ => finding.problem.is_warning() && !self.options.dummy_mode(),
        };
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
