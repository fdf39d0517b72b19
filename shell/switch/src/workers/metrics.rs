//! Recording every turn of the poll threads (`pmd-perf-metrics`): who wants it, where it is kept, what is told to the log.
//!
//! Each poll thread has a recorder while the setting is on, behind a lock that only commands contend for. A thread without
//! one asks a plain `Option` at each turn.

use super::desk::Order;
use super::{MAIN, Seat, Workers};
use crate::cycles;
use datapath::{Event, Worker};
use pmd::metrics::recorder::Counted;
use pmd::metrics::{Burst, Recorder, Suspicion, Watch, text};
use runtime::Module;
use runtime::log::RateLimit;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use units::{Millis, WorkerId};

static LOG: Module = Module::new("pmd_perf");
static LIMIT: RateLimit = RateLimit::new(600, 600);

/// A recorder that its worker writes and commands read.
pub(super) type SharedRecorder = Arc<Mutex<Recorder>>;

fn lock(recorder: &Mutex<Recorder>) -> MutexGuard<'_, Recorder> {
    recorder.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is wanted of all poll threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Metrics {
    on: bool,
    watch: Watch,
}

impl Metrics {
    /// Lets a worker know.
    pub(super) fn apply(self, seat: &mut Seat, now: Millis) {
        if seat.place.id == MAIN || self.on == seat.recorder.is_some() {
            return;
        }
        seat.recorder = self.on.then(|| Arc::new(Mutex::new(Recorder::new(now, self.watch))));
        seat.mailbox.post(Order::Record(seat.recorder.clone()));
    }
}

impl Workers {
    /// Whether every turn of the poll threads is recorded.
    pub(super) fn record(&mut self, on: bool) {
        self.metrics.on = on;
        for seat in self.seats.values_mut() {
            self.metrics.apply(seat, self.now);
        }
        self.deliver();
    }

    /// Which turns are told to the log.
    pub fn watch(&mut self, watch: Watch) {
        self.metrics.watch = watch;
        self.seats.values().filter_map(|s| s.recorder.as_ref()).for_each(|r| lock(r).set_watch(watch));
    }

    /// What was recorded of a worker.
    pub fn recorded(&self, worker: WorkerId) -> Option<Recorder> {
        Some(lock(self.seats.get(&worker)?.recorder.as_ref()?).clone())
    }

    /// Forgets what was recorded of a worker.
    pub fn clear_record(&self, worker: WorkerId, now: Millis) {
        let recorder = self.seats.get(&worker).and_then(|s| s.recorder.as_ref());
        recorder.into_iter().for_each(|r| lock(r).clear(now));
    }
}

/// Records the turn that a worker just took.
#[cold]
pub(super) fn record(recorder: &Mutex<Recorder>, worker: &mut Worker, now: Millis) {
    let tally = worker.tally();
    let counted = Counted {
        turns: tally.get(Event::Iterations),
        cycles: tally.get(Event::BusyCycles) + tally.get(Event::IdleCycles),
        packets: tally.get(Event::Received),
        upcalls: tally.get(Event::Missed),
        upcall_cycles: tally.get(Event::UpcallCycles),
    };
    let bursts = worker.bursts().map(|(packets, waiting)| Burst { packets, waiting: waiting.map(u64::from) });
    let told = lock(recorder).turn(counted, bursts, now);
    if let Some(suspicion) = told {
        tell(&suspicion);
    }
}

fn tell(suspicion: &Suspicion) {
    let Suspicion { reason, turn, cycles, around } = suspicion;
    let us = (u128::from(*cycles) * 1_000_000 / u128::from(cycles::per_second().max(1))) as u64;
    runtime::warn_rl!(LOG, LIMIT, "Suspicious iteration ({reason}): iter={turn} duration={us} us");
    if !around.is_empty() {
        let table = text::turns(around);
        runtime::warn_rl!(
            LOG,
            LIMIT,
            "Neighborhood of suspicious iteration:\n{}",
            table.trim_end_matches('\n')
        );
    }
}
