//! Measures what recording one iteration of a PMD thread costs (`pmd-perf-metrics`), in nanoseconds.
//!
//! `cargo run --release -p pmd --example record` records the same iterations (64 packets, varying cycles) many times and
//! prints the fastest run.

use pmd::metrics::sample::IterationCounters;
use pmd::metrics::{Burst, Recorder, Watch};
use std::hint::black_box;
use std::time::Instant;
use units::Millis;

const ITERATIONS: usize = 10_000;
const RUNS: u64 = 500;

/// The counters after each iteration: about 5000 cycles, varied by up to a third.
fn iterations() -> Vec<IterationCounters> {
    let mut random = fastrand::Rng::with_seed(1);
    let mut so_far = IterationCounters::default();
    let next = |_| {
        so_far.iterations += 1;
        so_far.packets += 64;
        so_far.cycles += random.u64(3500..6500);
        so_far
    };
    (0..ITERATIONS).map(next).collect()
}

fn main() {
    let iterations = iterations();
    let mut recorder = Recorder::new(Millis(0), Watch::default());
    let run = |run| {
        let start = Instant::now();
        for (i, counters) in iterations.iter().enumerate() {
            let bursts = [Burst { packets: 64, waiting: Some(7) }];
            let now = Millis(run * 20 + i as u64 / 500);
            black_box(recorder.add_iteration(black_box(*counters), bursts.into_iter(), now));
        }
        start.elapsed().as_nanos() as f64 / ITERATIONS as f64
    };
    let best = (0..RUNS).map(run).fold(f64::INFINITY, f64::min);
    println!("{best:.1} ns per iteration");
}
