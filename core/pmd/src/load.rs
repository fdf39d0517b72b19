//! Load of a queue or a core in the last minute: cycles in intervals of 5 s.
//!
//! The PMD thread only adds to a counter; the main thread samples the counter at the end of each interval. So the load
//! costs the PMD thread one store, and a queue that moves to another thread keeps its load history.

use units::{Cycles, Millis};

/// Length of an interval.
pub const INTERVAL: Millis = Millis::from_secs(5);
/// Number of intervals in the history.
pub const INTERVALS: usize = 12;

/// Cycles of each of the last intervals. It needs no memory outside itself, because the main thread visits those of all queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// Cycles of each interval; 0 where `intervals` has not been filled yet. The newest is in front of `next`.
    intervals: [u64; INTERVALS],
    /// Where the next interval will be stored.
    next: usize,
    /// The counter at the end of the last interval.
    before: Option<u64>,
}

impl History {
    /// Called at the end of an interval. `total`: the present value of the counter.
    pub fn sample(&mut self, total: Cycles) {
        let before = self.before.replace(total.0).unwrap_or(0);
        self.intervals[self.next] = total.0.saturating_sub(before);
        self.next = (self.next + 1) % INTERVALS;
    }

    /// To be called when the counter restarts at `total`. The history is kept.
    pub fn rebase(&mut self, total: Cycles) {
        self.before = Some(total.0);
    }

    /// Clears the history; the next interval counts from `total`.
    pub fn start(&mut self, total: Cycles) {
        *self = History { before: Some(total.0), ..History::default() };
    }

    /// Cycles of the last `intervals` intervals.
    pub fn sum(&self, intervals: usize) -> u64 {
        let (newer, older) = self.intervals.split_at(self.next);
        newer.iter().rev().chain(older.iter().rev()).take(intervals).sum()
    }

    /// Cycles of the last `intervals` intervals and of the present interval so far. `total`: the present value of the
    /// counter.
    pub fn recent(&self, intervals: usize, total: Cycles) -> u64 {
        self.sum(intervals) + total.0.saturating_sub(self.before.unwrap_or(0))
    }

    /// Cycles of the whole history.
    pub fn total(&self) -> u64 {
        self.sum(INTERVALS)
    }

    /// Cycles of the last complete interval.
    pub fn last(&self) -> u64 {
        self.sum(1)
    }
}

/// Determines when intervals end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ticker {
    next: Option<Millis>,
}

impl Ticker {
    /// Whether an interval has ended. The first call starts the first interval.
    pub fn due(&mut self, now: Millis) -> bool {
        let due = self.next.is_some_and(|next| now >= next);
        if due || self.next.is_none() {
            self.next = Some(now + INTERVAL);
        }
        due
    }

    /// When the present interval ends.
    pub fn next(&self) -> Option<Millis> {
        self.next
    }
}

/// The number of intervals that cover `seconds`; all intervals of the history if `seconds` is 0 or longer than it.
pub fn intervals_of(seconds: u64) -> usize {
    let interval = INTERVAL.0 / 1000;
    match seconds.div_ceil(interval) {
        n @ 1.. if n <= INTERVALS as u64 && seconds <= interval * INTERVALS as u64 => n as usize,
        _ => INTERVALS,
    }
}

/// The variance of core loads in percent, which the variance policy minimizes.
pub fn variance(busy: &[u64]) -> u64 {
    let n = busy.len() as u64;
    if n == 0 {
        return 0;
    }
    let mean = busy.iter().sum::<u64>() / n;
    busy.iter().map(|b| b.abs_diff(mean).pow(2)).sum::<u64>() / n
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minute_is_remembered() {
        let mut history = History::default();
        for i in 1..=20u64 {
            history.sample(Cycles(i * 100));
        }
        assert_eq!((history.last(), history.sum(2), history.total()), (100, 200, 1200));
        assert_eq!((history.recent(2, Cycles(2030)), history.recent(0, Cycles(2030))), (230, 30));
        // A counter that restarted does not give a negative load.
        history.sample(Cycles(5));
        assert_eq!(history.last(), 0);
        assert_eq!(History::default().recent(12, Cycles(7)), 7);
    }

    #[test]
    fn intervals_end_every_five_seconds() {
        let mut ticker = Ticker::default();
        assert!(!ticker.due(Millis(1000)));
        assert!(!ticker.due(Millis(5999)));
        assert!(ticker.due(Millis(6000)) && !ticker.due(Millis(6001)));
        assert_eq!(ticker.next(), Some(Millis(11_000)));
    }

    #[test]
    fn seconds_are_rounded_up_to_intervals() {
        let seconds = |s| intervals_of(s) * 5;
        assert_eq!([1, 5, 6, 51, 60, 61, 0].map(seconds), [5, 5, 10, 55, 60, 60, 60]);
    }

    #[test]
    fn variance_of_a_balanced_and_an_unbalanced_pair() {
        assert_eq!((variance(&[]), variance(&[50, 50]), variance(&[100, 0])), (0, 0, 2500));
    }
}
