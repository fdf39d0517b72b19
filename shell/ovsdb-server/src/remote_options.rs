//! How a remote treats its clients.

const DEFAULT_PROBE_MS: u64 = 5_000;
const DEFAULT_MAX_BACKOFF_MS: u64 = 8_000;

/// How a remote treats its clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteOptions {
    /// Longest wait before it is called again.
    pub max_backoff_ms: u64,
    /// Silence after which a client is probed; 0 is never.
    pub probe_interval_ms: u64,
    /// Whether changes are refused.
    pub read_only: bool,
    /// The role that the database's own rules speak of; empty is none.
    pub role: String,
}

impl RemoteOptions {
    /// What holds for a target where nothing is said. Who sits on the same host is not probed.
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
