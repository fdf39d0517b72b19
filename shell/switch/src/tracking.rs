//! State of a datapath for its tracked connections besides the tracker: timeouts of zones, and flushes in progress.
//!
//! **Thread**: the main loop.

use crate::timeouts::TimeoutPolicies;
use conntrack::{Conntrack, Filter};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Time of a step of the main loop that visits connections: what waits for the main loop is delayed by no more.
const STEP_TIME: Duration = Duration::from_micros(50);
/// Records of a flush between two looks at the clock: some microseconds.
const IN_A_FLUSH: u32 = 32;

/// Takes a step: calls `some`, which visits some connections and returns whether there are more, until there are none or [`STEP_TIME`]
/// has passed. Returns whether there are more.
pub fn step(mut some: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    while some() {
        if start.elapsed() >= STEP_TIME {
            return true;
        }
    }
    false
}

/// Timeouts, and flushes in progress.
#[derive(Default)]
pub(crate) struct Tracking {
    pub(crate) timeouts: TimeoutPolicies,
    pub(crate) flushes: Flushes,
}

/// A flush that is done in steps.
#[derive(Debug)]
pub struct Flush {
    zone: Option<u16>,
    filter: Filter,
    /// The number of the record to continue from.
    next: u32,
}

impl Flush {
    /// A flush of the connections of a zone (`None`: of all zones) that match a filter.
    pub(crate) fn new(zone: Option<u16>, filter: Filter) -> Flush {
        Flush { zone, filter, next: 0 }
    }

    /// Takes a step. Returns whether there are more.
    pub fn some(&mut self, table: &Conntrack) -> bool {
        step(|| {
            (self.next, _) = table.flush_some((self.next, IN_A_FLUSH), self.zone, &self.filter);
            self.next != 0
        })
    }
}

/// The flushes that OpenFlow connections have requested, with their numbers, in the order of the requests. One at a time takes steps.
/// A connection has at most one, because its next request waits.
#[derive(Debug, Default)]
pub(crate) struct Flushes {
    all: VecDeque<(u64, Flush)>,
    last: u64,
}

impl Flushes {
    /// Adds a flush, and returns its number.
    pub(crate) fn add(&mut self, flush: Flush) -> u64 {
        self.last += 1;
        self.all.push_back((self.last, flush));
        self.last
    }

    /// Whether a flush is done.
    pub(crate) fn is_done(&self, number: u64) -> bool {
        self.all.iter().all(|(n, _)| *n != number)
    }

    /// Whether there are any.
    pub(crate) fn any(&self) -> bool {
        !self.all.is_empty()
    }

    /// Takes a step of the first one.
    pub(crate) fn run(&mut self, table: &Conntrack) {
        if self.all.front_mut().is_some_and(|(_, flush)| !flush.some(table)) {
            self.all.pop_front();
        }
    }
}
