//! The options of a remote.

const DEFAULT_PROBE_MS: u64 = 5_000;
const DEFAULT_MAX_BACKOFF_MS: u64 = 8_000;

/// The options of a remote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteOptions {
    /// Longest wait between attempts to connect, in ms.
    pub max_backoff_ms: u64,
    /// A client from which nothing was received for this time, in ms, is probed; 0: never.
    pub probe_interval_ms: u64,
    /// Whether transactions that change the database are refused.
    pub read_only: bool,
    /// The role for the database's access rules (RBAC); empty: none.
    pub role: String,
}

impl RemoteOptions {
    /// The default options of a target. Clients on the same host are not probed.
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
