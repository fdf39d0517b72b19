//! State of the main loop about the connections of a datapath: timeout policies of zones, and flushes in progress.
//!
//! **Thread**: the main loop.

use crate::ct_timeout_policies::TimeoutPolicies;
use conntrack::{Conntrack, Filter};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Duration of a step of the main loop that visits connections. Other work of the main loop is delayed by at most this time per step.
const STEP_TIME: Duration = Duration::from_micros(50);
/// Records that a flush visits before the clock is read again. Visiting them takes some microseconds.
const FLUSH_RECORDS_PER_CLOCK_READ: u32 = 32;

/// Runs a step: calls `visit`, which visits some connections and returns whether there are more, until there are no more or [`STEP_TIME`] has passed.
/// Returns whether there are more.
pub fn step(mut visit: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    while visit() {
        if start.elapsed() >= STEP_TIME {
            return true;
        }
    }
    false
}

/// Timeout policies, and flushes in progress.
#[derive(Default)]
pub(crate) struct Tracking {
    pub(crate) timeouts: TimeoutPolicies,
    pub(crate) flushes: Flushes,
}

/// A flush that is done in steps.
#[derive(Debug)]
pub struct ConnectionFlush {
    zone: Option<u16>,
    filter: Filter,
    /// The number of the record from which the flush continues; 0 at the beginning, and again after the last record.
    next: u32,
}

impl ConnectionFlush {
    /// A flush of the connections of a zone (`None`: of all zones) that match a filter.
    pub(crate) fn new(zone: Option<u16>, filter: Filter) -> ConnectionFlush {
        ConnectionFlush { zone, filter, next: 0 }
    }

    /// Runs a step. Returns whether there are more records to visit.
    pub fn run_step(&mut self, table: &Conntrack) -> bool {
        step(|| {
            (self.next, _) =
                table.flush_some((self.next, FLUSH_RECORDS_PER_CLOCK_READ), self.zone, &self.filter);
            self.next != 0
        })
    }
}

/// The flushes that controllers have requested and their numbers, in the order of the requests. Only the first flush makes progress. Each OpenFlow
/// connection has at most one flush, because its next request waits until the flush is done.
#[derive(Debug, Default)]
pub(crate) struct Flushes {
    all: VecDeque<(u64, ConnectionFlush)>,
    last: u64,
}

impl Flushes {
    /// Adds a flush, and returns its number.
    pub(crate) fn add(&mut self, flush: ConnectionFlush) -> u64 {
        self.last += 1;
        self.all.push_back((self.last, flush));
        self.last
    }

    /// Whether a flush is done.
    pub(crate) fn is_done(&self, number: u64) -> bool {
        self.all.iter().all(|(n, _)| *n != number)
    }

    /// Whether any flush is in progress.
    pub(crate) fn any(&self) -> bool {
        !self.all.is_empty()
    }

    /// Runs a step of the first flush, and removes the flush if it is done.
    pub(crate) fn run(&mut self, table: &Conntrack) {
        if self.all.front_mut().is_some_and(|(_, flush)| !flush.run_step(table)) {
            self.all.pop_front();
        }
    }
}
