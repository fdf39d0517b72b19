//! Meters: their configuration and their counters.
//!
//! A datapath assigns numbers to its meters, so that meters of several bridges do not conflict. A [`MeterSlot`] owns
//! one number: when it is dropped, the meter is removed. Specification: OpenFlow 1.3.5 §5.7.

use std::sync::Arc;
use units::Millis;

/// Maximum number of meters of a datapath.
pub const MAX_METERS: u32 = 1 << 18;
/// Maximum number of bands of a meter.
pub const MAX_BANDS: usize = 8;

/// A band: a rate, and what happens to packets that exceed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Band {
    /// Rate in kilobits per second or packets per second; not 0.
    pub rate: u32,
    /// Burst in kilobits or packets; not 0.
    pub burst: u32,
    /// `None`: packets are dropped; otherwise the drop precedence of the DSCP is raised by this number.
    pub remark: Option<u8>,
}

/// Configuration of a meter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MeterSpec {
    /// Rates and bursts are in packets; otherwise in kilobits.
    pub packets: bool,
    /// The bands, at most [`MAX_BANDS`].
    pub bands: Vec<Band>,
}

/// Packets and bytes.
pub type Count = (u64, u64);

/// Counters of a meter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MeterCounts {
    /// All packets.
    pub total: Count,
    /// Packets that each band applied to.
    pub bands: Vec<Count>,
}

/// The meters of a datapath. Any thread may call these functions; none of them waits for a worker.
pub trait Meters: Send + Sync {
    /// Allocates the lowest free number; `None` if there is none.
    fn allocate(&self) -> Option<u32>;
    /// Creates or replaces the meter with this number, with full token buckets.
    fn set(&self, id: u32, spec: &MeterSpec, now: Millis);
    /// The counters of a meter; zero if it was never set.
    fn counts(&self, id: u32) -> MeterCounts;
    /// Frees the number.
    fn release(&self, id: u32);
}

/// Owns one meter of a datapath.
pub struct MeterSlot {
    meters: Arc<dyn Meters>,
    id: u32,
}

impl MeterSlot {
    /// Allocates a free number; `None` if there is none.
    pub fn new(meters: &Arc<dyn Meters>) -> Option<MeterSlot> {
        Some(MeterSlot { id: meters.allocate()?, meters: Arc::clone(meters) })
    }

    /// The number of the meter in the datapath.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// See [`Meters::set`].
    pub fn set(&self, spec: &MeterSpec, now: Millis) {
        self.meters.set(self.id, spec, now);
    }

    /// See [`Meters::counts`].
    pub fn counts(&self) -> MeterCounts {
        self.meters.counts(self.id)
    }
}

impl std::fmt::Debug for MeterSlot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "meter({})", self.id)
    }
}

impl Drop for MeterSlot {
    fn drop(&mut self) {
        self.meters.release(self.id);
    }
}
