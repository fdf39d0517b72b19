//! Meters: what the control half tells a datapath about them, and what it counts.
//!
//! A datapath numbers its meters itself, so that those of several bridges do not meet. A [`MeterSlot`] is the right to
//! one number: when its last holder lets go of it the meter goes. Sources: OpenFlow 1.3.5 §5.7.

use std::sync::Arc;
use units::Millis;

/// How many meters a datapath has.
pub const MAX_METERS: u32 = 1 << 18;
/// How many bands a meter has.
pub const MAX_BANDS: usize = 8;

/// What happens above a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Band {
    /// Kilobits, or packets, per second; not 0.
    pub rate: u32,
    /// How much may come at once, in kilobits or packets; not 0.
    pub burst: u32,
    /// `None` drops; otherwise the drop precedence of the DSCP is raised by so much.
    pub remark: Option<u8>,
}

/// How a meter measures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MeterSpec {
    /// It counts packets; otherwise bits.
    pub packets: bool,
    /// At most [`MAX_BANDS`].
    pub bands: Vec<Band>,
}

/// Packets and bytes.
pub type Count = (u64, u64);

/// What a meter has seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MeterCounts {
    /// All that came.
    pub total: Count,
    /// What each band met.
    pub bands: Vec<Count>,
}

/// The meters of a datapath. Any thread may call it; no call waits for a worker.
pub trait Meters: Send + Sync {
    /// The lowest free number; `None`: there is none.
    fn allocate(&self) -> Option<u32>;
    /// Makes the meter of this number, full of tokens, in place of any that was.
    fn set(&self, id: u32, spec: &MeterSpec, now: Millis);
    /// What it counted; nothing, if it was never set.
    fn counts(&self, id: u32) -> MeterCounts;
    /// Gives the number back.
    fn release(&self, id: u32);
}

/// One meter of a datapath. See the module.
pub struct MeterSlot {
    meters: Arc<dyn Meters>,
    id: u32,
}

impl MeterSlot {
    /// A free one; `None`: there is none.
    pub fn new(meters: &Arc<dyn Meters>) -> Option<MeterSlot> {
        Some(MeterSlot { id: meters.allocate()?, meters: Arc::clone(meters) })
    }

    /// The datapath's number of it.
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
