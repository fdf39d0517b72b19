//! Records the iterations of one PMD thread.
//!
//! The cycles of an iteration are known only when the next one has begun. So an iteration is first recorded
//! in a [`Block`]; about a hundred are then added to the histograms at once, which costs less than one by
//! one. The last blocks are also the history of iterations. Before reading, [`Recorder::settle`] adds the
//! remaining iterations. While iterations are watched, each is added immediately.

use super::block::{BLOCK_LEN, BLOCKS, Block};
use super::histogram::Histogram;
use super::sample::{Counted, REMEMBERED, Sample};
use super::watch::{Suspect, Suspicion, Watch};
use std::ops::Range;
use units::Millis;

/// What an iteration received from one queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// Packets; at least one.
    pub packets: u64,
    /// For a guest's queue: packets that were left in it.
    pub waiting: Option<u64>,
}

/// The last milliseconds, in a ring. Entries that were not written yet are all zero.
#[derive(Clone, Debug)]
struct Ring {
    samples: Vec<Sample>,
    next: usize,
}

impl Ring {
    fn new() -> Ring {
        Ring { samples: vec![Sample::default(); REMEMBERED], next: 0 }
    }

    fn push(&mut self, sample: Sample) {
        self.samples[self.next] = sample;
        self.next = (self.next + 1) % REMEMBERED;
    }

    /// The last `n` samples, newest first.
    fn newest(&self, n: usize) -> Vec<Sample> {
        (1..=n.min(REMEMBERED)).map(|i| self.samples[(self.next + REMEMBERED - i) % REMEMBERED]).collect()
    }
}

/// The histograms, in the order of the table.
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
    fn enter(&mut self, block: &Block, turns: Range<usize>) {
        self.cycles.add_each(block.cycles(&turns));
        self.packets.add_alike(block.packets(&turns));
        let per_packet = block.cycles(&turns).zip(block.packets(&turns));
        self.cycles_per_packet.add_alike(per_packet.filter_map(|(cycles, n)| cycles.checked_div(n)));
        self.queued.add_alike(block.queued[turns.clone()].iter().map(|n| u64::from(*n)));
        if block.upcalls(&turns) == 0 {
            return self.upcalls.add_times(0, turns.len() as u64);
        }
        for turn in turns.map(|i| block.sum(i..i + 1)) {
            self.upcalls.add_times(turn.upcalls, 1);
            if let Some(each) = turn.upcall_cycles.checked_div(turn.upcalls) {
                self.cycles_per_upcall.add_times(each, turn.upcalls);
            }
        }
    }
}

/// The recorder of one thread; see the module documentation.
#[derive(Clone, Debug)]
pub struct Recorder {
    histograms: Histograms,
    /// A ring of blocks: `present_block` is being written, the next one is the oldest, the one before it the newest
    /// full one.
    blocks: Vec<Block>,
    present_block: usize,
    /// The last iteration of the present block that was added to the histograms.
    entered: usize,
    millis: Ring,
    /// The millisecond that has not ended yet.
    present: Sample,
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
            entered: 0,
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

    /// Changes which iterations are logged.
    pub fn set_watch(&mut self, watch: Watch) {
        self.settle();
        self.watch = watch;
    }

    /// Records an iteration. A returned suspicion is about an earlier iteration.
    #[inline]
    pub fn turn(
        &mut self,
        counted: Counted,
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
        block.push(&counted, batches, queued, now);
        if block.is_full() {
            let logged = self.settle();
            self.begin_block();
            return logged;
        }
        if self.is_watched() { self.settle() } else { None }
    }

    fn is_watched(&self) -> bool {
        self.watch.on || self.suspect.is_some()
    }

    #[cold]
    fn begin_block(&mut self) {
        let next = (self.present_block + 1) % BLOCKS;
        if let Ok([next, full]) = self.blocks.get_disjoint_mut([next, self.present_block]) {
            next.follow(full);
        }
        (self.present_block, self.entered) = (next, 0);
    }

    /// Adds all iterations whose cycles are known, which excludes the last one. A returned suspicion is about the
    /// newest of them: more than one are added at once only if iterations are not watched.
    pub fn settle(&mut self) -> Option<Suspicion> {
        let block = &self.blocks[self.present_block];
        let turns = self.entered + 1..block.len.saturating_sub(1);
        if turns.is_empty() {
            return None;
        }
        self.entered = turns.end - 1;
        self.histograms.enter(block, turns.clone());
        self.enter_millis(turns);
        if !self.is_watched() {
            return None;
        }
        let last = self.blocks[self.present_block].sum(self.entered..self.entered + 1);
        self.check(&last)
    }

    /// Adds iterations of the present block to the milliseconds in which they ended, which is when the next one was
    /// recorded.
    fn enter_millis(&mut self, turns: Range<usize>) {
        let (block, mut first) = (&self.blocks[self.present_block], turns.start);
        for (i, now) in turns.clone().zip(&block.at[turns.start + 1..]) {
            if self.present.stamp != now.0 {
                self.present.add(&block.sum(first..i + 1));
                let over = std::mem::replace(&mut self.present, Sample { stamp: now.0, ..Sample::default() });
                self.totals.add(&over);
                self.millis.push(over);
                first = i + 1;
            }
        }
        if first < turns.end {
            self.present.add(&block.sum(first..turns.end));
        }
    }

    /// Returns the suspicion to log after this iteration, if any.
    fn check(&mut self, turn: &Sample) -> Option<Suspicion> {
        let logged = self.watch.check(&mut self.suspect, turn);
        if logged.is_some() {
            return logged;
        }
        let done = self.suspect.take_if(|s| s.is_over(turn))?;
        let around = self.last_turns(done.range(turn));
        self.watch.after(around.len());
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

    /// The last iterations that were added, newest first. Missing ones are all zero.
    pub fn last_turns(&self, n: usize) -> Vec<Sample> {
        let blocks = (0..BLOCKS).map(|back| &self.blocks[(self.present_block + BLOCKS - back) % BLOCKS]);
        let ends = std::iter::once(self.entered).chain(std::iter::repeat(BLOCK_LEN));
        let turns = blocks.take_while(|b| b.len != 0).zip(ends);
        let samples = turns.flat_map(|(block, end)| (1..=end).rev().map(|i| block.sum(i..i + 1)));
        samples.chain(std::iter::repeat(Sample::default())).take(n.min(REMEMBERED)).collect()
    }

    /// The last milliseconds that have ended, newest first.
    pub fn last_millis(&self, n: usize) -> Vec<Sample> {
        self.millis.newest(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records iterations of 1000 cycles and two packets each, four in a millisecond.
    fn recorded(turns: u64, watch: Watch, slow: u64) -> (Recorder, Vec<Suspicion>) {
        let mut recorder = Recorder::new(Millis(100), watch);
        let (mut logged, mut cycles) = (Vec::new(), 0);
        for i in 1..=turns {
            let counted =
                Counted { turns: i, cycles, packets: 2 * i, upcalls: i / 2, upcall_cycles: 2000 * (i / 2) };
            let bursts = [Burst { packets: 2, waiting: Some(i % 4) }];
            logged.extend(recorder.turn(counted, bursts.into_iter(), Millis(100 + i / 4)));
            cycles += if i == slow { 5_000_000 } else { 1000 };
        }
        logged.extend(recorder.settle());
        (recorder, logged)
    }

    #[test]
    fn turns_and_milliseconds_are_remembered() {
        let (recorder, _) = recorded(42, Watch::default(), 0);
        // The first iteration only gives the start of counting, and the last one has not ended.
        let histograms = recorder.histograms();
        assert_eq!(histograms.cycles.bins().iter().sum::<u64>(), 40);
        assert_eq!(histograms.packets.bins()[2], 40);
        assert_eq!((histograms.upcalls.bins()[0], histograms.upcalls.bins()[1]), (20, 20));
        let last = recorder.last_turns(2);
        assert_eq!((last[0].stamp, last[1].stamp, last[0].cycles, last[0].packets), (41, 40, 1000, 2));
        let ms = recorder.last_millis(3);
        assert_eq!((ms[0].stamp, ms[0].turns, ms[0].cycles, ms[0].busy_cycles), (109, 4, 4000, 4000));
        assert_eq!((recorder.totals().packets, recorder.totals().batches), (76, 38));
        // Missing entries are all zero.
        assert_eq!(
            (recorder.last_turns(5000).len(), recorder.last_turns(500)[499]),
            (1000, Sample::default())
        );
    }

    /// Checks numbers of iterations that end in the middle of a block, at its end, and just after it.
    #[test]
    fn results_do_not_depend_on_block_limits() {
        let watch = Watch { on: true, cycles: u64::MAX, ..Watch::default() };
        for turns in [2, 127, 128, 129, 130, 131, 132, 1024, 1300, 2999] {
            let (together, _) = recorded(turns, Watch::default(), 7);
            let (one_by_one, _) = recorded(turns, watch, 7);
            assert_eq!(together.histograms, one_by_one.histograms);
            assert_eq!(
                (together.totals(), together.last_millis(500)),
                (one_by_one.totals(), one_by_one.last_millis(500))
            );
            let stamps: Vec<u64> = together.last_turns(1000).iter().map(|s| s.stamp).collect();
            let expected =
                (0..1000).map(|i| (turns - 1).saturating_sub(i)).map(|n| if n > 1 { n } else { 0 });
            assert_eq!(stamps, expected.collect::<Vec<_>>(), "{turns}");
            assert_eq!(together.last_turns(1000), one_by_one.last_turns(1000));
        }
    }

    #[test]
    fn a_slow_iteration_is_logged_with_those_around_it() {
        let watch = Watch { on: true, cycles: 100_000, ..Watch::default() };
        let (_, logged) = recorded(100, watch, 50);
        assert_eq!(logged.len(), 1);
        let Suspicion { reason, turn, cycles, around } = &logged[0];
        assert_eq!((*reason, *turn, *cycles), ("Excessive total cycles", 50, 5_000_000));
        let stamps: Vec<u64> = around.iter().map(|s| s.stamp).collect();
        assert_eq!(stamps, (45..=55).rev().collect::<Vec<_>>());
        assert!(recorded(100, Watch::default(), 50).1.is_empty());
    }

    #[test]
    fn clear_removes_everything() {
        let (mut recorder, _) = recorded(42, Watch::default(), 0);
        recorder.clear(Millis(500));
        assert_eq!((recorder.totals().packets, recorder.last_turns(1)[0]), (0, Sample::default()));
    }
}
