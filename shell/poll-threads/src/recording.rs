//! The recorder of one PMD thread (`pmd-perf-metrics`), which also logs suspicious iterations.

use crate::cycles;
use datapath::{Event, Worker};
use pmd::metrics::sample::IterationCounters;
use pmd::metrics::{Burst, Recorder, Suspicion, Watch, text};
use runtime::Module;
use runtime::log::RateLimit;
use units::Millis;

static LOG: Module = Module::new("pmd_perf");
static LIMIT: RateLimit = RateLimit::new(600, 600);

/// The settings of recording, for all PMD threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Metrics {
    pub(crate) on: bool,
    pub(crate) watch: Watch,
}

/// Records the last iteration of a worker.
#[cold]
pub(crate) fn record(recorder: &mut Recorder, worker: &mut Worker, now: Millis) {
    let tally = worker.tally();
    let counters = IterationCounters {
        iterations: tally.get(Event::Iterations),
        cycles: tally.get(Event::BusyCycles) + tally.get(Event::IdleCycles),
        packets: tally.get(Event::Received),
        upcalls: tally.get(Event::Missed),
        upcall_cycles: tally.get(Event::UpcallCycles),
    };
    let bursts = worker.bursts().map(|(packets, waiting)| Burst { packets, waiting: waiting.map(u64::from) });
    if let Some(suspicion) = recorder.add_iteration(counters, bursts, now) {
        log_suspicion(&suspicion);
    }
}

fn log_suspicion(suspicion: &Suspicion) {
    let Suspicion { reason, iteration, cycles, around } = suspicion;
    let us = (u128::from(*cycles) * 1_000_000 / u128::from(cycles::per_second().max(1))) as u64;
    runtime::warn_rl!(LOG, LIMIT, "Suspicious iteration ({reason}): iter={iteration} duration={us} us");
    if !around.is_empty() {
        let table = text::iterations(around);
        runtime::warn_rl!(
            LOG,
            LIMIT,
            "Neighborhood of suspicious iteration:\n{}",
            table.trim_end_matches('\n')
        );
    }
}
