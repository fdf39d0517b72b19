//! How busy a worker was in the last minute, as the main thread samples it.

use datapath::{Event, Tally};
use pmd::History;
use pmd::balance::Overload;
use units::Cycles;

/// How busy a worker was in the last minute.
#[derive(Clone, Debug, Default)]
pub struct SeatLoad {
    /// Cycles of turns that found packets.
    pub busy: History,
    /// Cycles of all turns.
    pub all: History,
    /// Cycles that it slept.
    pub(super) asleep: History,
    pub(super) overload: Overload,
}

impl SeatLoad {
    /// Cycles that passed in the last interval.
    pub fn elapsed(&self) -> u64 {
        self.all.last() + self.asleep.last()
    }

    /// Cycles of turns that found packets in the last `intervals` intervals and since then, and how many passed meanwhile.
    /// `tally`: what the worker has counted until now.
    pub fn usage(&self, intervals: usize, tally: &Tally) -> (u64, u64) {
        let n = |event| Cycles(tally.get(event));
        let busy = self.busy.recent(intervals, n(Event::BusyCycles));
        let all = self.all.recent(intervals, Cycles(n(Event::BusyCycles).0 + n(Event::IdleCycles).0));
        (busy, all + self.asleep.recent(intervals, n(Event::SleepCycles)))
    }
}
