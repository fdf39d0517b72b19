//! Records the iterations of one PMD thread.
//!
//! The cycles of an iteration are known only when the next one has begun. So an iteration is first recorded in a
//! [`Block`]; all iterations of a full block (128) are then added to the histograms together, which costs less than
//! adding them one by one. The last blocks are also the history of iterations. Before reading, [`Recorder::add_pending`] adds
//! the remaining iterations. While suspicious iterations are logged, each iteration is added immediately.

use super::block::{BLOCK_LEN, BLOCKS, Block};
use super::histogram::Histogram;
use super::sample::{HISTORY_LEN, IterationCounters, Sample};
use super::watch::{Suspect, Suspicion, Watch};
use std::ops::Range;
use units::Millis;

/// What an iteration received from one queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// Number of packets received; at least one.
    pub packets: u64,
    /// For a guest's queue: number of packets that remained in the queue.
    pub waiting: Option<u64>,
}

/// The samples of the last milliseconds, in a ring buffer. Entries that were not written yet are all zero.
#[derive(Clone, Debug)]
struct Ring {
    samples: Vec<Sample>,
    next: usize,
}

impl Ring {
    fn new() -> Ring {
        Ring { samples: vec![Sample::default(); HISTORY_LEN], next: 0 }
    }

    fn push(&mut self, sample: Sample) {
        self.samples[self.next] = sample;
        self.next = (self.next + 1) % HISTORY_LEN;
    }

    /// The last `n` samples, newest first.
    fn newest(&self, n: usize) -> Vec<Sample> {
        (1..=n.min(HISTORY_LEN)).map(|i| self.samples[(self.next + HISTORY_LEN - i) % HISTORY_LEN]).collect()
    }
}

/// The histograms, in the order of the columns of `pmd-perf-show`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histograms {
    /// Cycles of an iteration.
    pub cycles: Histogram,
    /// Packets of an iteration.
    pub packets: Histogram,
    /// Cycles of a packet.
    pub cycles_per_packet: Histogram,
    /// Packets of a burst.
    pub packets_per_batch: Histogram,
    /// Largest number of packets in a guest's queue in an iteration.
    pub queued: Histogram,
    /// Upcalls of an iteration.
    pub upcalls: Histogram,
    /// Cycles of an upcall: the mean within the iteration.
    pub cycles_per_upcall: Histogram,
}

impl Histograms {
    fn new() -> Histograms {
        Histograms {
            cycles: Histogram::logarithmic(500, 24_000_000),
            packets: Histogram::logarithmic(0, 1000),
            cycles_per_packet: Histogram::linear(100, 30_000),
            packets_per_batch: Histogram::linear(0, 32),
            queued: Histogram::logarithmic(0, 512),
            upcalls: Histogram::linear(0, 30),
            cycles_per_upcall: Histogram::logarithmic(1000, 1_000_000),
        }
    }

    /// Adds iterations of a block.
    fn add_block(&mut self, block: &Block, iterations: Range<usize>) {
        self.cycles.add_each(block.cycles(&iterations));
        self.packets.add_alike(block.packets(&iterations));
        let per_packet = block.cycles(&iterations).zip(block.packets(&iterations));
        self.cycles_per_packet.add_alike(per_packet.filter_map(|(cycles, n)| cycles.checked_div(n)));
        self.queued.add_alike(block.queued[iterations.clone()].iter().map(|n| u64::from(*n)));
        if block.upcalls(&iterations) == 0 {
            return self.upcalls.add_times(0, iterations.len() as u64);
        }
        for iteration in iterations.map(|i| block.sum(i..i + 1)) {
            self.upcalls.add_times(iteration.upcalls, 1);
            if let Some(each) = iteration.upcall_cycles.checked_div(iteration.upcalls) {
                self.cycles_per_upcall.add_times(each, iteration.upcalls);
            }
        }
    }
}

/// The recorder of one thread; see the module documentation.
#[derive(Clone, Debug)]
pub struct Recorder {
    histograms: Histograms,
    /// A ring of blocks: the block after `present_block` is the oldest, the block before it the newest full one.
    blocks: Vec<Block>,
    /// Index of the block to which iterations are written.
    present_block: usize,
    /// The last entry of the present block that was added to the histograms.
    added: usize,
    millis: Ring,
    /// The millisecond that has not ended yet.
    present: Sample,
    /// Sum of all milliseconds that have ended.
    totals: Sample,
    watch: Watch,
    suspect: Option<Suspect>,
}

impl Recorder {
    /// Starts recording.
    pub fn new(now: Millis, watch: Watch) -> Recorder {
        Recorder {
            histograms: Histograms::new(),
            blocks: vec![Block::EMPTY; BLOCKS],
            present_block: 0,
            added: 0,
            millis: Ring::new(),
            present: Sample { stamp: now.0, ..Sample::default() },
            totals: Sample::default(),
            watch,
            suspect: None,
        }
    }

    /// Clears everything.
    pub fn clear(&mut self, now: Millis) {
        *self = Recorder::new(now, self.watch);
    }

    /// Sets which iterations are logged.
    pub fn set_watch(&mut self, watch: Watch) {
        self.add_pending();
        self.watch = watch;
    }

    /// Records an iteration. Returns a suspicious earlier iteration to log now, if there is one.
    #[inline]
    pub fn add_iteration(
        &mut self,
        counters: IterationCounters,
        bursts: impl Iterator<Item = Burst>,
        now: Millis,
    ) -> Option<Suspicion> {
        let (mut batches, mut queued) = (0, 0);
        for burst in bursts {
            batches += 1;
            self.histograms.packets_per_batch.add_alike(std::iter::once(burst.packets));
            queued = queued.max(burst.waiting.map_or(0, |n| (n + burst.packets) as u32));
        }
        let block = &mut self.blocks[self.present_block];
        block.push(&counters, batches, queued, now);
        if block.is_full() {
            let logged = self.add_pending();
            self.begin_block();
            return logged;
        }
        if self.is_watched() { self.add_pending() } else { None }
    }

    fn is_watched(&self) -> bool {
        self.watch.on || self.suspect.is_some()
    }

    /// Replaces the full present block by the next block of the ring.
    #[cold]
    fn begin_block(&mut self) {
        let next = (self.present_block + 1) % BLOCKS;
        if let Ok([next, full]) = self.blocks.get_disjoint_mut([next, self.present_block]) {
            next.start_after(full);
        }
        (self.present_block, self.added) = (next, 0);
    }

    /// Adds all iterations whose cycles are known (all except the last one) to histograms and sums. Returns a suspicious
    /// iteration to log, if there is one. Only the newest added iteration is checked: while suspicious iterations are
    /// logged, each call adds only one.
    pub fn add_pending(&mut self) -> Option<Suspicion> {
        let block = &self.blocks[self.present_block];
        let iterations = self.added + 1..block.len.saturating_sub(1);
        if iterations.is_empty() {
            return None;
        }
        self.added = iterations.end - 1;
        self.histograms.add_block(block, iterations.clone());
        self.add_to_millis(iterations);
        if !self.is_watched() {
            return None;
        }
        let last = self.blocks[self.present_block].sum(self.added..self.added + 1);
        self.check(&last)
    }

    /// Adds iterations of the present block to the milliseconds in which they ended. An iteration ends when the next one
    /// is recorded.
    fn add_to_millis(&mut self, iterations: Range<usize>) {
        let (block, mut first) = (&self.blocks[self.present_block], iterations.start);
        for (i, now) in iterations.clone().zip(&block.at[iterations.start + 1..]) {
            if self.present.stamp != now.0 {
                self.present.add(&block.sum(first..i + 1));
                let over = std::mem::replace(&mut self.present, Sample { stamp: now.0, ..Sample::default() });
                self.totals.add(&over);
                self.millis.push(over);
                first = i + 1;
            }
        }
        if first < iterations.end {
            self.present.add(&block.sum(first..iterations.end));
        }
    }

    /// Checks an iteration; returns the suspicious iteration to log now, if there is one.
    fn check(&mut self, iteration: &Sample) -> Option<Suspicion> {
        let logged = self.watch.check(&mut self.suspect, iteration);
        if logged.is_some() {
            return logged;
        }
        let done = self.suspect.take_if(|s| s.is_complete(iteration))?;
        let around = self.last_iterations(done.range_len(iteration));
        self.watch.after_logging(around.len());
        Some(done.suspicion(around))
    }

    /// The histograms.
    pub fn histograms(&self) -> &Histograms {
        &self.histograms
    }

    /// The sum of all milliseconds that have ended.
    pub fn totals(&self) -> &Sample {
        &self.totals
    }

    /// The last `n` iterations that were added, newest first. If there were fewer, the remaining samples are all zero.
    pub fn last_iterations(&self, n: usize) -> Vec<Sample> {
        let blocks = (0..BLOCKS).map(|back| &self.blocks[(self.present_block + BLOCKS - back) % BLOCKS]);
        let ends = std::iter::once(self.added).chain(std::iter::repeat(BLOCK_LEN));
        let iterations = blocks.take_while(|b| b.len != 0).zip(ends);
        let samples = iterations.flat_map(|(block, end)| (1..=end).rev().map(|i| block.sum(i..i + 1)));
        samples.chain(std::iter::repeat(Sample::default())).take(n.min(HISTORY_LEN)).collect()
    }

    /// The last `n` milliseconds that have ended, newest first.
    pub fn last_millis(&self, n: usize) -> Vec<Sample> {
        self.millis.newest(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records iterations of 1000 cycles and two packets each, four in a millisecond.
    fn recorded(iterations: u64, watch: Watch, slow: u64) -> (Recorder, Vec<Suspicion>) {
        let mut recorder = Recorder::new(Millis(100), watch);
        let (mut logged, mut cycles) = (Vec::new(), 0);
        for i in 1..=iterations {
            let counters = IterationCounters {
                iterations: i,
                cycles,
                packets: 2 * i,
                upcalls: i / 2,
                upcall_cycles: 2000 * (i / 2),
            };
            let bursts = [Burst { packets: 2, waiting: Some(i % 4) }];
            logged.extend(recorder.add_iteration(counters, bursts.into_iter(), Millis(100 + i / 4)));
            cycles += if i == slow { 5_000_000 } else { 1000 };
        }
        logged.extend(recorder.add_pending());
        (recorder, logged)
    }

    #[test]
    fn iterations_and_milliseconds_are_remembered() {
        let (recorder, _) = recorded(42, Watch::default(), 0);
        // The first iteration only sets the initial counters, and the last one has not ended.
        let histograms = recorder.histograms();
        assert_eq!(histograms.cycles.bins().iter().sum::<u64>(), 40);
        assert_eq!(histograms.packets.bins()[2], 40);
        assert_eq!((histograms.upcalls.bins()[0], histograms.upcalls.bins()[1]), (20, 20));
        let last = recorder.last_iterations(2);
        assert_eq!((last[0].stamp, last[1].stamp, last[0].cycles, last[0].packets), (41, 40, 1000, 2));
        let ms = recorder.last_millis(3);
        assert_eq!((ms[0].stamp, ms[0].iterations, ms[0].cycles, ms[0].busy_cycles), (109, 4, 4000, 4000));
        assert_eq!((recorder.totals().packets, recorder.totals().batches), (76, 38));
        // Missing entries are all zero.
        assert_eq!(
            (recorder.last_iterations(5000).len(), recorder.last_iterations(500)[499]),
            (1000, Sample::default())
        );
    }

    /// Checks numbers of iterations that end in the middle of a block, at its end, and just after it.
    #[test]
    fn results_do_not_depend_on_block_limits() {
        let watch = Watch { on: true, cycles: u64::MAX, ..Watch::default() };
        for iterations in [2, 127, 128, 129, 130, 131, 132, 1024, 1300, 2999] {
            let (together, _) = recorded(iterations, Watch::default(), 7);
            let (one_by_one, _) = recorded(iterations, watch, 7);
            assert_eq!(together.histograms, one_by_one.histograms);
            assert_eq!(
                (together.totals(), together.last_millis(500)),
                (one_by_one.totals(), one_by_one.last_millis(500))
            );
            let stamps: Vec<u64> = together.last_iterations(1000).iter().map(|s| s.stamp).collect();
            let expected =
                (0..1000).map(|i| (iterations - 1).saturating_sub(i)).map(|n| if n > 1 { n } else { 0 });
            assert_eq!(stamps, expected.collect::<Vec<_>>(), "{iterations}");
            assert_eq!(together.last_iterations(1000), one_by_one.last_iterations(1000));
        }
    }

    #[test]
    fn a_slow_iteration_is_logged_with_those_around_it() {
        let watch = Watch { on: true, cycles: 100_000, ..Watch::default() };
        let (_, logged) = recorded(100, watch, 50);
        assert_eq!(logged.len(), 1);
        let Suspicion { reason, iteration, cycles, around } = &logged[0];
        assert_eq!((*reason, *iteration, *cycles), ("Excessive total cycles", 50, 5_000_000));
        let stamps: Vec<u64> = around.iter().map(|s| s.stamp).collect();
        assert_eq!(stamps, (45..=55).rev().collect::<Vec<_>>());
        assert!(recorded(100, Watch::default(), 50).1.is_empty());
    }

    #[test]
    fn clear_removes_everything() {
        let (mut recorder, _) = recorded(42, Watch::default(), 0);
        recorder.clear(Millis(500));
        assert_eq!((recorder.totals().packets, recorder.last_iterations(1)[0]), (0, Sample::default()));
    }
}
