//! What the log says of settings that do nothing, or not what they say.
//!
//! It hears of each once, and again when its value changes or it comes back. On the main thread.

use crate::log::LOG;
use crate::switch::Switch;
use config::settings::check::Finding;
use ovsdb::Change;

impl Switch {
    /// Looks at the rows that changed, and tells what is wrong with them that was not before.
    pub(crate) fn tell_settings(&mut self, changes: &[Change]) {
        let netdevs = &self.devices.netdevs;
        let found = self.findings.follow(&self.db.replica, changes, |kind| netdevs.is_dummy(kind));
        // Scripts that test Open vSwitch look for warnings that it does not give.
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
