//! A block of iterations as they were recorded. Blocks are first added to histograms and sums, then serve as the
//! history.
//!
//! Each column is an array of its own, so an operation on a column of a hundred iterations is a loop over adjacent
//! values.

use super::sample::{Counted, REMEMBERED, Sample};
use std::ops::Range;
use units::Millis;

/// Iterations that are added to the histograms at once.
pub(super) const BLOCK_LEN: usize = 128;
/// Also holds the iteration before the first and the one after the last: their values give the beginning of the first
/// iteration and the end of the last.
const COLUMN: usize = BLOCK_LEN + 2;
/// Enough blocks for all remembered iterations and the present block.
pub(super) const BLOCKS: usize = REMEMBERED.div_ceil(BLOCK_LEN) + 1;

/// A block of recorded iterations. Iteration 0 is the last but one of the previous block, or the first that was ever recorded.
#[derive(Clone, Debug)]
pub(super) struct Block {
    /// Number of recorded iterations.
    pub(super) len: usize,
    /// Counters after each iteration.
    turns: [u64; COLUMN],
    cycles: [u64; COLUMN],
    packets: [u64; COLUMN],
    upcalls: [u64; COLUMN],
    upcall_cycles: [u64; COLUMN],
    /// Bursts of the iteration, and the largest number of packets in a guest's queue.
    batches: [u32; COLUMN],
    pub(super) queued: [u32; COLUMN],
    /// When the iteration ended.
    pub(super) at: [Millis; COLUMN],
}

impl Block {
    pub(super) const EMPTY: Block = Block {
        len: 0,
        turns: [0; COLUMN],
        cycles: [0; COLUMN],
        packets: [0; COLUMN],
        upcalls: [0; COLUMN],
        upcall_cycles: [0; COLUMN],
        batches: [0; COLUMN],
        queued: [0; COLUMN],
        at: [Millis(0); COLUMN],
    };

    /// Records an iteration unless the block is full.
    #[inline]
    pub(super) fn push(&mut self, counted: &Counted, batches: u32, queued: u32, at: Millis) {
        let i = self.len;
        if i >= COLUMN {
            return;
        }
        self.turns[i] = counted.turns;
        self.cycles[i] = counted.cycles;
        self.packets[i] = counted.packets;
        self.upcalls[i] = counted.upcalls;
        self.upcall_cycles[i] = counted.upcall_cycles;
        self.batches[i] = batches;
        self.queued[i] = queued;
        self.at[i] = at;
        self.len = i + 1;
    }

    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.len == COLUMN
    }

    /// Turns this block into the successor of a full one.
    pub(super) fn follow(&mut self, full: &Block) {
        self.len = 0;
        for i in BLOCK_LEN..COLUMN {
            let counted = Counted {
                turns: full.turns[i],
                cycles: full.cycles[i],
                packets: full.packets[i],
                upcalls: full.upcalls[i],
                upcall_cycles: full.upcall_cycles[i],
            };
            self.push(&counted, full.batches[i], full.queued[i], full.at[i]);
        }
    }

    /// Cycles of each iteration: the difference to the next one.
    #[inline]
    pub(super) fn cycles(&self, turns: &Range<usize>) -> impl Iterator<Item = u64> {
        steps(&self.cycles[turns.start..turns.end + 1])
    }

    /// Packets of each iteration: the difference from the previous one.
    #[inline]
    pub(super) fn packets(&self, turns: &Range<usize>) -> impl Iterator<Item = u64> {
        steps(&self.packets[turns.start - 1..turns.end])
    }

    /// Upcalls of all these iterations: the difference from the one before the first.
    pub(super) fn upcalls(&self, turns: &Range<usize>) -> u64 {
        self.upcalls[turns.end - 1].saturating_sub(self.upcalls[turns.start - 1])
    }

    /// Sums iterations into one sample with the stamp of the last. There must be at least one, and neither the first
    /// nor the last of the block.
    pub(super) fn sum(&self, turns: Range<usize>) -> Sample {
        let (before, last) = (turns.start - 1, turns.end - 1);
        let since = |column: &[u64; COLUMN]| column[last].saturating_sub(column[before]);
        let busy = self.cycles(&turns).zip(self.packets(&turns));
        Sample {
            stamp: self.turns[last],
            turns: turns.len() as u64,
            cycles: self.cycles[turns.end].saturating_sub(self.cycles[turns.start]),
            busy_cycles: busy.map(|(cycles, packets)| if packets > 0 { cycles } else { 0 }).sum(),
            packets: since(&self.packets),
            batches: total(&self.batches[turns.clone()]),
            queued: total(&self.queued[turns.clone()]),
            upcalls: self.upcalls(&turns),
            upcall_cycles: since(&self.upcall_cycles),
        }
    }
}

#[inline]
fn steps(column: &[u64]) -> impl Iterator<Item = u64> {
    column.windows(2).map(|two| two[1].saturating_sub(two[0]))
}

fn total(column: &[u32]) -> u64 {
    column.iter().map(|n| u64::from(*n)).sum()
}
