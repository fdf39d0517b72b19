//! Which turns are told to the log, and when: only after the last of those around it, so that telling disturbs nothing
//! that is told.

use super::recorder::{REMEMBERED, Sample};

/// Turns that are told before and after one that is suspicious.
const AROUND: usize = 5;
/// A guest's queue that holds so many packets is full.
const QUEUE_FULL: u64 = 128;
/// After so many turns were told at once, as many as usual are.
const MANY: usize = 100;

/// What is suspicious, and how much is told of it (`pmd-perf-log-set`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watch {
    /// Anything is told.
    pub on: bool,
    /// A turn that took more cycles is suspicious.
    pub cycles: u64,
    /// So is one that found so many packets in a guest's queue.
    pub queued: u64,
    /// So many turns before it are told, too.
    pub before: usize,
    /// And so many after it.
    pub after: usize,
    /// Another one among those after it makes the story longer.
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

/// Something to tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suspicion {
    /// What was wrong.
    pub reason: &'static str,
    /// Number of the turn.
    pub turn: u64,
    /// Cycles that it took.
    pub cycles: u64,
    /// The turns around it, the newest first; empty where the story goes on.
    pub around: Vec<Sample>,
}

/// A suspicious turn that is to be told.
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

    /// How many of the last turns belong to it.
    pub(super) fn range(&self, turn: &Sample) -> usize {
        ((turn.stamp + 1).saturating_sub(self.first) as usize).min(REMEMBERED - 1)
    }

    pub(super) fn tell(&self, around: Vec<Sample>) -> Suspicion {
        Suspicion { reason: self.reason, turn: self.turn.stamp, cycles: self.turn.cycles, around }
    }
}

impl Watch {
    /// Looks at a turn: it may become a suspect, or make the story of the present one longer, which is told then.
    pub(super) fn look(&self, suspect: &mut Option<Suspect>, turn: &Sample) -> Option<Suspicion> {
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
                let told = old.tell(Vec::new());
                let last = last.min(old.first + REMEMBERED as u64 - 2);
                *old = Suspect { reason, turn: *turn, first: old.first, last };
                Some(told)
            }
            _ => None,
        }
    }

    /// So many turns were told at once.
    pub(super) fn after(&mut self, told: usize) {
        if told > MANY {
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
    fn a_story_can_grow() {
        let watch = Watch { on: true, extend: true, ..Watch::default() };
        let mut suspect = None;
        assert_eq!(watch.look(&mut suspect, &turn(10, 127)), None);
        assert!(suspect.is_none());
        assert_eq!(watch.look(&mut suspect, &turn(10, 128)), None);
        let told = watch.look(&mut suspect, &turn(13, 200)).unwrap();
        assert_eq!((told.reason, told.turn, told.around.len()), ("Vhost RX queue full", 10, 0));
        let suspect = suspect.unwrap();
        assert!(!suspect.is_over(&turn(17, 0)) && suspect.is_over(&turn(18, 0)));
        assert_eq!(suspect.range(&turn(18, 0)), 14);
    }

    #[test]
    fn many_at_once_are_told_once() {
        let mut watch = Watch { before: 90, after: 90, extend: true, ..Watch::default() };
        watch.after(100);
        assert_eq!(watch.before, 90);
        watch.after(101);
        assert_eq!((watch.before, watch.after, watch.extend), (5, 5, false));
    }
}
