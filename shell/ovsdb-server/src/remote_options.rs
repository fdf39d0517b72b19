//! Options of a remote.

const DEFAULT_PROBE_MS: u64 = 5_000;
const DEFAULT_MAX_BACKOFF_MS: u64 = 8_000;

/// Options of a remote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteOptions {
    /// Longest delay before it is connected again.
    pub max_backoff_ms: u64,
    /// Idle time after which a client is probed; 0: never.
    pub probe_interval_ms: u64,
    /// Whether transactions that change the database are refused.
    pub read_only: bool,
    /// The RBAC role of its clients; empty: none.
    pub role: String,
}

impl RemoteOptions {
    /// The defaults of a target. Local clients are not probed.
    pub fn default_for(target: &str) -> RemoteOptions {
        let local = target.starts_with("unix:") || target.starts_with("punix:");
        RemoteOptions {
            max_backoff_ms: DEFAULT_MAX_BACKOFF_MS,
            probe_interval_ms: if local { 0 } else { DEFAULT_PROBE_MS },
            read_only: false,
            role: String::new(),
        }
    }
}
