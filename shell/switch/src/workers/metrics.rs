//! Recording every turn of the poll threads (`pmd-perf-metrics`): who wants it, where it is kept, what is told to the log.
//!
//! Each poll thread owns a recorder while the setting is on: it takes no lock for it. Who wants to know what was recorded asks
//! between two turns, and waits for a copy.

use super::desk::Order;
use super::{MAIN, Runner, Seat, Workers};
use crate::cycles;
use datapath::{Event, Worker};
use pmd::metrics::recorder::Counted;
use pmd::metrics::{Burst, Recorder, Suspicion, Watch, text};
use runtime::Module;
use runtime::log::RateLimit;
use std::sync::mpsc::sync_channel;
use units::{Millis, WorkerId};

static LOG: Module = Module::new("pmd_perf");
static LIMIT: RateLimit = RateLimit::new(600, 600);

/// What is wanted of all poll threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Metrics {
    on: bool,
    watch: Watch,
}

impl Metrics {
    /// Lets a worker know.
    pub(super) fn apply(self, seat: &mut Seat, now: Millis) {
        if seat.place.id == MAIN || self.on == seat.recorded {
            return;
        }
        seat.recorded = self.on;
        seat.mailbox.post(Order::Record(self.on.then(|| Box::new(Recorder::new(now, self.watch)))));
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
        self.seats.values().filter(|s| s.recorded).for_each(|s| s.mailbox.post(Order::Watch(watch)));
        self.deliver();
    }

    /// What was recorded of a worker.
    pub fn recorded(&self, worker: WorkerId) -> Option<Recorder> {
        let seat = self.seats.get(&worker).filter(|s| s.recorded)?;
        if let Runner::Inline(desk) = &seat.runner {
            return desk.recorded();
        }
        let (copy, answer) = sync_channel(1);
        seat.mailbox.post(Order::Recorded(copy));
        self.hear(seat, &answer)
    }

    /// Forgets what was recorded of a worker.
    pub fn clear_record(&mut self, worker: WorkerId, now: Millis) {
        if let Some(seat) = self.seats.get(&worker).filter(|s| s.recorded) {
            let fresh = Recorder::new(now, self.metrics.watch);
            seat.mailbox.post(Order::Record(Some(Box::new(fresh))));
        }
        self.deliver();
    }
}

/// Records the turn that a worker just took.
#[cold]
pub(super) fn record(recorder: &mut Recorder, worker: &mut Worker, now: Millis) {
    let tally = worker.tally();
    let counted = Counted {
        turns: tally.get(Event::Iterations),
        cycles: tally.get(Event::BusyCycles) + tally.get(Event::IdleCycles),
        packets: tally.get(Event::Received),
        upcalls: tally.get(Event::Missed),
        upcall_cycles: tally.get(Event::UpcallCycles),
    };
    let bursts = worker.bursts().map(|(packets, waiting)| Burst { packets, waiting: waiting.map(u64::from) });
    if let Some(suspicion) = recorder.turn(counted, bursts, now) {
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
