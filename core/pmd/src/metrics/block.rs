//! A block of recorded iterations. A full block is first added to the histograms and sums, and then kept as part of the
//! history.
//!
//! Each column is an array of its own, so an operation on one column of many iterations is a loop over adjacent values.

use super::sample::{HISTORY_LEN, IterationCounters, Sample};
use std::ops::Range;
use units::Millis;

/// Iterations that are added to the histograms at once.
pub(super) const BLOCK_LEN: usize = 128;
/// Length of a column. A block also holds the iteration before its first and the one after its last, because cycles and
/// packets of an iteration are differences between neighbouring entries.
const COLUMN_LEN: usize = BLOCK_LEN + 2;
/// Number of blocks: enough for all iterations of the history and the present block.
pub(super) const BLOCKS: usize = HISTORY_LEN.div_ceil(BLOCK_LEN) + 1;

/// A block of recorded iterations. Entry 0 is the last but one entry of the previous block, or in the first block the
/// first recorded iteration.
#[derive(Clone, Debug)]
pub(super) struct Block {
    /// Number of entries.
    pub(super) len: usize,
    // The thread's counters after each iteration (see `IterationCounters`).
    iterations: [u64; COLUMN_LEN],
    cycles: [u64; COLUMN_LEN],
    packets: [u64; COLUMN_LEN],
    upcalls: [u64; COLUMN_LEN],
    upcall_cycles: [u64; COLUMN_LEN],
    /// Bursts of the iteration.
    batches: [u32; COLUMN_LEN],
    /// Largest number of packets in a guest's queue.
    pub(super) queued: [u32; COLUMN_LEN],
    /// When the iteration ended.
    pub(super) at: [Millis; COLUMN_LEN],
}

impl Block {
    pub(super) const EMPTY: Block = Block {
        len: 0,
        iterations: [0; COLUMN_LEN],
        cycles: [0; COLUMN_LEN],
        packets: [0; COLUMN_LEN],
        upcalls: [0; COLUMN_LEN],
        upcall_cycles: [0; COLUMN_LEN],
        batches: [0; COLUMN_LEN],
        queued: [0; COLUMN_LEN],
        at: [Millis(0); COLUMN_LEN],
    };

    /// Records an iteration unless the block is full.
    #[inline]
    pub(super) fn push(&mut self, counters: &IterationCounters, batches: u32, queued: u32, at: Millis) {
        let i = self.len;
        if i >= COLUMN_LEN {
            return;
        }
        self.iterations[i] = counters.iterations;
        self.cycles[i] = counters.cycles;
        self.packets[i] = counters.packets;
        self.upcalls[i] = counters.upcalls;
        self.upcall_cycles[i] = counters.upcall_cycles;
        self.batches[i] = batches;
        self.queued[i] = queued;
        self.at[i] = at;
        self.len = i + 1;
    }

    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.len == COLUMN_LEN
    }

    /// Empties this block and copies the last two entries of the full block `full` to its beginning.
    pub(super) fn start_after(&mut self, full: &Block) {
        self.len = 0;
        for i in BLOCK_LEN..COLUMN_LEN {
            let counters = IterationCounters {
                iterations: full.iterations[i],
                cycles: full.cycles[i],
                packets: full.packets[i],
                upcalls: full.upcalls[i],
                upcall_cycles: full.upcall_cycles[i],
            };
            self.push(&counters, full.batches[i], full.queued[i], full.at[i]);
        }
    }

    /// Cycles of each iteration: the difference to the next entry, because an entry does not count the cycles of its own iteration.
    #[inline]
    pub(super) fn cycles(&self, iterations: &Range<usize>) -> impl Iterator<Item = u64> {
        differences(&self.cycles[iterations.start..iterations.end + 1])
    }

    /// Packets of each iteration: the difference from the previous entry.
    #[inline]
    pub(super) fn packets(&self, iterations: &Range<usize>) -> impl Iterator<Item = u64> {
        differences(&self.packets[iterations.start - 1..iterations.end])
    }

    /// Upcalls of all these iterations together.
    pub(super) fn upcalls(&self, iterations: &Range<usize>) -> u64 {
        self.upcalls[iterations.end - 1].saturating_sub(self.upcalls[iterations.start - 1])
    }

    /// Adds iterations to one sample, whose stamp is that of the last iteration. `iterations` must not be empty and must not
    /// contain the first or last entry of the block.
    pub(super) fn sum(&self, iterations: Range<usize>) -> Sample {
        let (before, last) = (iterations.start - 1, iterations.end - 1);
        let since = |column: &[u64; COLUMN_LEN]| column[last].saturating_sub(column[before]);
        let busy = self.cycles(&iterations).zip(self.packets(&iterations));
        Sample {
            stamp: self.iterations[last],
            iterations: iterations.len() as u64,
            cycles: self.cycles[iterations.end].saturating_sub(self.cycles[iterations.start]),
            busy_cycles: busy.map(|(cycles, packets)| if packets > 0 { cycles } else { 0 }).sum(),
            packets: since(&self.packets),
            batches: total(&self.batches[iterations.clone()]),
            queued: total(&self.queued[iterations.clone()]),
            upcalls: self.upcalls(&iterations),
            upcall_cycles: since(&self.upcall_cycles),
        }
    }
}

/// The differences between neighbouring entries.
#[inline]
fn differences(column: &[u64]) -> impl Iterator<Item = u64> {
    column.windows(2).map(|two| two[1].saturating_sub(two[0]))
}

fn total(column: &[u32]) -> u64 {
    column.iter().map(|n| u64::from(*n)).sum()
}
