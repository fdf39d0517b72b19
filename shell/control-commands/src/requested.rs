//! Requests of commands that last beyond their replies.

use crate::perf_log::PerfLog;

/// Requests of commands that last beyond their replies.
#[derive(Debug, Default)]
pub(crate) struct Requested {
    /// Which iterations of PMD threads are logged.
    pub(crate) perf_log: PerfLog,
    /// `exit` was called: true with clean-up.
    pub(crate) exiting: Option<bool>,
}
