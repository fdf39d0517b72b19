//! Measures what recording one iteration of a PMD thread costs (`pmd-perf-metrics`), in nanoseconds.
//!
//! `cargo run --release -p pmd --example record`: prints the best of many passes over iterations with 64 packets and
//! varying cycles.

use pmd::metrics::sample::Counted;
use pmd::metrics::{Burst, Recorder, Watch};
use std::hint::black_box;
use std::time::Instant;
use units::Millis;

const TURNS: usize = 10_000;
const PASSES: u64 = 500;

/// The counters after each iteration: about 5000 cycles, varied by up to a third.
fn turns() -> Vec<Counted> {
    let mut random = fastrand::Rng::with_seed(1);
    let mut so_far = Counted::default();
    let next = |_| {
        so_far.turns += 1;
        so_far.packets += 64;
        so_far.cycles += random.u64(3500..6500);
        so_far
    };
    (0..TURNS).map(next).collect()
}

fn main() {
    let turns = turns();
    let mut recorder = Recorder::new(Millis(0), Watch::default());
    let pass = |pass| {
        let start = Instant::now();
        for (i, counted) in turns.iter().enumerate() {
            let bursts = [Burst { packets: 64, waiting: Some(7) }];
            let now = Millis(pass * 20 + i as u64 / 500);
            black_box(recorder.turn(black_box(*counted), bursts.into_iter(), now));
        }
        start.elapsed().as_nanos() as f64 / TURNS as f64
    };
    let best = (0..PASSES).map(pass).fold(f64::INFINITY, f64::min);
    println!("{best:.1} ns a turn");
}
