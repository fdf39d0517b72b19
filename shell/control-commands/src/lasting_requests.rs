//! Requests of commands whose effect lasts beyond the reply.

use crate::perf_log::PerfLog;

/// Requests of commands whose effect lasts beyond the reply.
#[derive(Debug, Default)]
pub(crate) struct LastingRequests {
    /// Which iterations of PMD threads are logged.
    pub(crate) perf_log: PerfLog,
    /// `exit` was called: true with clean-up.
    pub(crate) exiting: Option<bool>,
}
