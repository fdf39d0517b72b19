//! Counters of `other_config:shadow-check`.

use std::sync::atomic::AtomicU64;

/// Results of shadow checks.
#[derive(Debug, Default)]
pub struct ShadowCheckCounts {
    /// Packets translated again.
    pub checked: AtomicU64,
    /// Checks without result because the tables were changing.
    pub unsettled: AtomicU64,
    /// Wrong megaflows: the actions are not those of the tables, or the megaflow does not match the packet.
    pub wrong: AtomicU64,
}
