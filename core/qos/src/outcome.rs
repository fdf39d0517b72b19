//! What is counted, and what is refused.

/// Rates and bursts that no policer can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Invalid;

/// What passed a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounts {
    /// Packets that were sent.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Packets that were dropped.
    pub dropped: u64,
}
