//! The rates of a port and of its queues.

use std::collections::BTreeMap;

/// The settings of a queue. Rates are in bytes per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassSpec {
    /// Guaranteed rate.
    pub min: u64,
    /// Maximum rate.
    pub max: u64,
    /// Burst in bytes. It is at least one MTU plus what the rate sends in 1 ms; a smaller value is raised to this, for `min` and `max`
    /// separately.
    pub burst: u64,
    /// Priority: queues with a lower value are first to borrow from the rest of the port's rate.
    pub priority: u8,
}

/// The settings of a port and its queues.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShaperSpec {
    /// Rate of all queues together, in bytes per second.
    pub rate: u64,
    /// MTU in bytes.
    pub mtu: u32,
    /// Queues by number. Queue 0 is added if it is missing.
    pub classes: BTreeMap<u32, ClassSpec>,
}
