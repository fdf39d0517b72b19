//! The clocks of a worker, besides the time of the iteration.

use crate::meter::FineClock;
use crate::residence::Scale;
use crate::stages::{PathStage, StageClock};
use units::Cycles;

/// The clocks by which a worker measures time in cycles.
pub(crate) struct Clocks {
    /// The clock of meters.
    pub(crate) fine: FineClock,
    /// Converts cycles to the buckets of the rx queues' histograms.
    pub(crate) residence_scale: Scale,
    /// Reads the cycle counter. Always returns 0 if no counter was set.
    pub(crate) counter: fn() -> Cycles,
    /// Times the stages if requested.
    pub(crate) stages: Option<Box<StageClock>>,
}

impl Default for Clocks {
    fn default() -> Clocks {
        Clocks {
            fine: FineClock::default(),
            residence_scale: Scale::default(),
            counter: || Cycles(0),
            stages: None,
        }
    }
}

impl Clocks {
    /// Sets the number of cycles per millisecond.
    pub(crate) fn set_cycles_per_ms(&mut self, cycles_per_ms: u64) {
        self.fine.per_ms = cycles_per_ms;
        self.residence_scale = Scale::new(cycles_per_ms);
    }

    /// Ends a stage: the stage clock, if there is one, measures its time.
    #[inline]
    pub(crate) fn end_stage(&mut self, stage: PathStage) {
        if let Some(clock) = &mut self.stages {
            clock.end(stage);
        }
    }
}
