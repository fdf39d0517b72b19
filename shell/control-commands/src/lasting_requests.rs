//! Requests of commands whose effect lasts beyond the reply.

use crate::perf_log::PerfLog;

/// Requests of commands whose effect continues after the reply.
#[derive(Debug, Default)]
pub(crate) struct LastingRequests {
    /// Which iterations of PMD threads are logged.
    pub(crate) perf_log: PerfLog,
    /// `Some` if `exit` was called: true with `--cleanup`.
    pub(crate) exiting: Option<bool>,
}
