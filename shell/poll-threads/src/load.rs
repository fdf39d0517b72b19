//! The load of a worker in the last minute, sampled by the main thread.

use datapath::{Event, Tally};
use pmd::History;
use pmd::balance::Overload;
use units::Cycles;

/// The load of a worker in the last minute.
#[derive(Clone, Debug, Default)]
pub struct WorkerLoad {
    /// Cycles of iterations that found packets.
    pub busy: History,
    /// Cycles of all iterations, without sleeps.
    pub all: History,
    /// Cycles spent asleep.
    pub(crate) asleep: History,
    pub(crate) overload: Overload,
}

impl WorkerLoad {
    /// Cycles that passed in the last interval, including sleeps.
    pub fn elapsed(&self) -> u64 {
        self.all.last() + self.asleep.last()
    }

    /// Returns the cycles of busy iterations and the cycles that passed, both during the last `intervals`
    /// intervals and the present interval so far. `tally`: the present counters of the worker.
    pub fn usage(&self, intervals: usize, tally: &Tally) -> (u64, u64) {
        let n = |event| Cycles(tally.get(event));
        let busy = self.busy.recent(intervals, n(Event::BusyCycles));
        let all = self.all.recent(intervals, Cycles(n(Event::BusyCycles).0 + n(Event::IdleCycles).0));
        (busy, all + self.asleep.recent(intervals, n(Event::SleepCycles)))
    }
}
