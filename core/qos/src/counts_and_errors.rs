//! Counters of queues, and errors.

/// The rates or bursts are invalid for this policer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidRates;

/// Counters of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounts {
    /// Packets that were sent. For `trtcm-policer`: packets that passed the queue's own meter; the port's
    /// meter may have dropped them afterwards.
    pub packets: u64,
    /// Bytes of the sent packets.
    pub bytes: u64,
    /// Packets that were dropped.
    pub dropped: u64,
}
