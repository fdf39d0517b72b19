//! Rates of a port and of its queues.

use std::collections::BTreeMap;

/// A queue. Rates in bytes per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassSpec {
    /// Guaranteed rate.
    pub min: u64,
    /// Highest rate.
    pub max: u64,
    /// Bytes that may be sent at once; at least an MTU and what the rate sends in a millisecond are allowed.
    pub burst: u64,
    /// Queues with lower numbers are the first to use what others leave.
    pub priority: u8,
}

/// A port with its queues.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShaperSpec {
    /// Bytes per second of all queues together.
    pub rate: u64,
    /// Bytes of the longest packet.
    pub mtu: u32,
    /// Queues by number. Queue 0 is made if it is missing.
    pub classes: BTreeMap<u32, ClassSpec>,
}
