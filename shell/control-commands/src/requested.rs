//! What commands have asked for that outlasts their answer.

use crate::perf_log::PerfLog;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Requested {
    /// Which turns of poll threads are told to the log.
    pub(crate) perf_log: PerfLog,
    /// `exit` was called: with or without clean-up.
    pub(crate) exiting: Option<bool>,
}
