//! Rates of a port and of its queues.

use std::collections::BTreeMap;

/// A queue. Rates in bytes per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassSpec {
    /// Guaranteed rate.
    pub min: u64,
    /// Maximum rate.
    pub max: u64,
    /// Burst in bytes. At least one MTU and the bytes of a millisecond at the rate are allowed.
    pub burst: u64,
    /// Queues with lower numbers use the rest of the port's rate first.
    pub priority: u8,
}

/// A port with its queues.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShaperSpec {
    /// Bytes per second of all queues together.
    pub rate: u64,
    /// Bytes of the longest packet.
    pub mtu: u32,
    /// Queues by number. Queue 0 is added if it is missing.
    pub classes: BTreeMap<u32, ClassSpec>,
}
