//! Logs settings that have no effect, or another effect than they say.
//!
//! Each problem is logged once, and again when the value changes or the problem reappears. **Thread**: the main loop.

use crate::log::LOG;
use crate::switch::Switch;
use config::check::Finding;
use ovsdb::RowChange;

impl Switch {
    /// Checks the rows that changed, and logs new problems.
    pub(crate) fn log_settings(&mut self, changes: &[RowChange]) {
        let netdevs = &self.devices.netdevs;
        let found = self.findings.follow(&self.db.replica, changes, |kind| netdevs.is_dummy(kind));
        // Scripts that test Open vSwitch fail on warnings that it does not log.
        let loud = |finding: &Finding| finding.problem.is_warning() && !self.options.dummy_mode();
        for finding in &found {
            if loud(finding) {
                runtime::warn!(LOG, "{finding}");
            } else {
                runtime::info!(LOG, "{finding}");
            }
        }
    }
}
