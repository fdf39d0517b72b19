//! Counters of `other_config:shadow-check`.

use std::sync::atomic::AtomicU64;

/// What came of the packets that were shown.
#[derive(Debug, Default)]
pub struct Verdicts {
    /// Translated again.
    pub checked: AtomicU64,
    /// The control half was changing: nothing can be said.
    pub unsettled: AtomicU64,
    /// The megaflow was not what the tables say, or did not match the packet.
    pub wrong: AtomicU64,
}
