//! Decides which iterations are logged: suspicious ones, with the iterations before and after them. They are logged
//! together, after the last of them, so that logging does not slow them down.

use super::sample::{HISTORY_LEN, Sample};

/// Default number of iterations that are logged before a suspicious one, and after it.
const AROUND: usize = 5;
/// Default threshold: a guest's queue with this many packets counts as full.
const QUEUE_FULL: u64 = 128;
/// If more iterations than this were logged at once, the numbers before and after return to the default.
const MANY_LOGGED: usize = 100;

/// What makes an iteration suspicious, and how much is logged (`pmd-perf-log-set`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watch {
    /// Logging is on.
    pub on: bool,
    /// Threshold: an iteration with more cycles is suspicious.
    pub cycles: u64,
    /// Threshold: an iteration that found this many packets in a guest's queue is suspicious.
    pub queued: u64,
    /// Iterations to log before the suspicious one.
    pub before: usize,
    /// Iterations to log after the suspicious one.
    pub after: usize,
    /// If an iteration of the range after a suspicious one is suspicious, too, it extends the range.
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
    pub iteration: u64,
    /// Cycles of the iteration.
    pub cycles: u64,
    /// The iterations around it, newest first; empty if another suspicious iteration extended the range.
    pub around: Vec<Sample>,
}

/// A suspicious iteration whose range is not complete yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Suspect {
    reason: &'static str,
    iteration: Sample,
    /// Number of the first iteration of the range.
    first: u64,
    /// Number of the last iteration of the range.
    last: u64,
}

impl Suspect {
    /// Whether the range is complete after `iteration`.
    pub(super) fn is_complete(&self, iteration: &Sample) -> bool {
        iteration.stamp >= self.last
    }

    /// How many of the last iterations belong to the range. `iteration`: the last one.
    pub(super) fn range_len(&self, iteration: &Sample) -> usize {
        ((iteration.stamp + 1).saturating_sub(self.first) as usize).min(HISTORY_LEN - 1)
    }

    pub(super) fn suspicion(&self, around: Vec<Sample>) -> Suspicion {
        Suspicion {
            reason: self.reason,
            iteration: self.iteration.stamp,
            cycles: self.iteration.cycles,
            around,
        }
    }
}

impl Watch {
    /// Checks an iteration. A suspicious iteration becomes the suspect. If there is a suspect already and `extend` is
    /// set, the iteration becomes the suspect and extends the range of the old one, which is returned, to be logged
    /// without a range.
    pub(super) fn check(&self, suspect: &mut Option<Suspect>, iteration: &Sample) -> Option<Suspicion> {
        let reason = if iteration.cycles > self.cycles {
            "Excessive total cycles"
        } else if iteration.queued >= self.queued {
            "Vhost RX queue full"
        } else {
            return None;
        };
        let last = iteration.stamp + self.after as u64;
        match suspect {
            None if self.on => {
                let first = iteration.stamp.saturating_sub(self.before as u64).max(1);
                *suspect = Some(Suspect { reason, iteration: *iteration, first, last });
                None
            }
            Some(old) if self.extend => {
                let logged = old.suspicion(Vec::new());
                let last = last.min(old.first + HISTORY_LEN as u64 - 2);
                *old = Suspect { reason, iteration: *iteration, first: old.first, last };
                Some(logged)
            }
            _ => None,
        }
    }

    /// Called after `logged` iterations were logged at once.
    pub(super) fn after_logging(&mut self, logged: usize) {
        if logged > MANY_LOGGED {
            *self = Watch { before: AROUND, after: AROUND, extend: false, ..*self };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn iteration(stamp: u64, queued: u64) -> Sample {
        Sample { stamp, queued, ..Sample::default() }
    }

    #[test]
    fn another_suspicious_iteration_extends_the_range() {
        let watch = Watch { on: true, extend: true, ..Watch::default() };
        let mut suspect = None;
        assert_eq!(watch.check(&mut suspect, &iteration(10, 127)), None);
        assert!(suspect.is_none());
        assert_eq!(watch.check(&mut suspect, &iteration(10, 128)), None);
        let logged = watch.check(&mut suspect, &iteration(13, 200)).unwrap();
        assert_eq!((logged.reason, logged.iteration, logged.around.len()), ("Vhost RX queue full", 10, 0));
        let suspect = suspect.unwrap();
        assert!(!suspect.is_complete(&iteration(17, 0)) && suspect.is_complete(&iteration(18, 0)));
        assert_eq!(suspect.range_len(&iteration(18, 0)), 14);
    }

    #[test]
    fn a_range_of_many_iterations_resets_the_limits() {
        let mut watch = Watch { before: 90, after: 90, extend: true, ..Watch::default() };
        watch.after_logging(100);
        assert_eq!(watch.before, 90);
        watch.after_logging(101);
        assert_eq!((watch.before, watch.after, watch.extend), (5, 5, false));
    }
}
