//! Decides which iterations are logged. They are logged after the last of them has ended, so that logging
//! does not disturb them.

use super::sample::{REMEMBERED, Sample};

/// Iterations that are logged before and after a suspicious one.
const AROUND: usize = 5;
/// A guest's queue with this many packets is full.
const QUEUE_FULL: u64 = 128;
/// After this many iterations were logged at once, the numbers before and after return to the default.
const MANY_LOGGED: usize = 100;

/// What makes an iteration suspicious, and how much is logged (`pmd-perf-log-set`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watch {
    /// Logging is on.
    pub on: bool,
    /// An iteration with more cycles is suspicious.
    pub cycles: u64,
    /// An iteration that found this many packets in a guest's queue is suspicious.
    pub queued: u64,
    /// Iterations to log before the suspicious one.
    pub before: usize,
    /// Iterations to log after the suspicious one.
    pub after: usize,
    /// A suspicious iteration among those after another one extends the range that is logged.
    pub extend: bool,
}

impl Default for Watch {
    fn default() -> Watch {
        Watch {
            on: false,
            cycles: u64::MAX,
            queued: QUEUE_FULL,
            before: AROUND,
            after: AROUND,
            extend: false,
        }
    }
}

/// A suspicious iteration to log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suspicion {
    /// Why it is suspicious.
    pub reason: &'static str,
    /// Number of the iteration.
    pub turn: u64,
    /// Cycles of the iteration.
    pub cycles: u64,
    /// The iterations around it, newest first; empty if another suspicious iteration extended the range.
    pub around: Vec<Sample>,
}

/// A suspicious iteration whose range is not complete yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Suspect {
    reason: &'static str,
    turn: Sample,
    first: u64,
    last: u64,
}

impl Suspect {
    pub(super) fn is_over(&self, turn: &Sample) -> bool {
        turn.stamp >= self.last
    }

    /// How many of the last iterations belong to the range.
    pub(super) fn range(&self, turn: &Sample) -> usize {
        ((turn.stamp + 1).saturating_sub(self.first) as usize).min(REMEMBERED - 1)
    }

    pub(super) fn suspicion(&self, around: Vec<Sample>) -> Suspicion {
        Suspicion { reason: self.reason, turn: self.turn.stamp, cycles: self.turn.cycles, around }
    }
}

impl Watch {
    /// Checks an iteration: it may become the suspect, or extend the range of the present suspect, which is then
    /// logged.
    pub(super) fn check(&self, suspect: &mut Option<Suspect>, turn: &Sample) -> Option<Suspicion> {
        let reason = if turn.cycles > self.cycles {
            "Excessive total cycles"
        } else if turn.queued >= self.queued {
            "Vhost RX queue full"
        } else {
            return None;
        };
        let last = turn.stamp + self.after as u64;
        match suspect {
            None if self.on => {
                let first = turn.stamp.saturating_sub(self.before as u64).max(1);
                *suspect = Some(Suspect { reason, turn: *turn, first, last });
                None
            }
            Some(old) if self.extend => {
                let logged = old.suspicion(Vec::new());
                let last = last.min(old.first + REMEMBERED as u64 - 2);
                *old = Suspect { reason, turn: *turn, first: old.first, last };
                Some(logged)
            }
            _ => None,
        }
    }

    /// Called after `logged` iterations were logged at once.
    pub(super) fn after(&mut self, logged: usize) {
        if logged > MANY_LOGGED {
            *self = Watch { before: AROUND, after: AROUND, extend: false, ..*self };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(stamp: u64, queued: u64) -> Sample {
        Sample { stamp, queued, ..Sample::default() }
    }

    #[test]
    fn another_suspicious_iteration_extends_the_range() {
        let watch = Watch { on: true, extend: true, ..Watch::default() };
        let mut suspect = None;
        assert_eq!(watch.check(&mut suspect, &turn(10, 127)), None);
        assert!(suspect.is_none());
        assert_eq!(watch.check(&mut suspect, &turn(10, 128)), None);
        let logged = watch.check(&mut suspect, &turn(13, 200)).unwrap();
        assert_eq!((logged.reason, logged.turn, logged.around.len()), ("Vhost RX queue full", 10, 0));
        let suspect = suspect.unwrap();
        assert!(!suspect.is_over(&turn(17, 0)) && suspect.is_over(&turn(18, 0)));
        assert_eq!(suspect.range(&turn(18, 0)), 14);
    }

    #[test]
    fn a_range_of_many_iterations_resets_the_limits() {
        let mut watch = Watch { before: 90, after: 90, extend: true, ..Watch::default() };
        watch.after(100);
        assert_eq!(watch.before, 90);
        watch.after(101);
        assert_eq!((watch.before, watch.after, watch.extend), (5, 5, false));
    }
}
