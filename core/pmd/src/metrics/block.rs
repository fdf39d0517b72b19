//! Turns as they are noted, before they are entered into distributions and sums, and after that as a history.
//!
//! Each column stands for itself, so that what is done with a column of a hundred turns is a loop over neighbours.

use super::recorder::{Counted, REMEMBERED, Sample};
use std::ops::Range;
use units::Millis;

/// So many turns are entered together.
pub(super) const TOGETHER: usize = 128;
/// With the turn before the first, which says where that begins, and the one after the last, which says where that ends.
const ROOM: usize = TOGETHER + 2;
/// As many blocks as hold all turns that are remembered, and the present one.
pub(super) const BLOCKS: usize = REMEMBERED.div_ceil(TOGETHER) + 1;

/// See the module. Turn 0 is the last but one of the block before, or the first that was ever noted.
#[derive(Clone, Debug)]
pub(super) struct Block {
    /// How many are noted.
    pub(super) len: usize,
    /// As they stood after each turn.
    turns: [u64; ROOM],
    cycles: [u64; ROOM],
    packets: [u64; ROOM],
    upcalls: [u64; ROOM],
    upcall_cycles: [u64; ROOM],
    /// Bursts of the turn, and most packets in a guest's queue.
    batches: [u32; ROOM],
    pub(super) queued: [u32; ROOM],
    /// When it was over.
    pub(super) at: [Millis; ROOM],
}

impl Block {
    pub(super) const EMPTY: Block = Block {
        len: 0,
        turns: [0; ROOM],
        cycles: [0; ROOM],
        packets: [0; ROOM],
        upcalls: [0; ROOM],
        upcall_cycles: [0; ROOM],
        batches: [0; ROOM],
        queued: [0; ROOM],
        at: [Millis(0); ROOM],
    };

    /// Notes a turn, as long as there is room.
    #[inline]
    pub(super) fn push(&mut self, counted: &Counted, batches: u32, queued: u32, at: Millis) {
        let i = self.len;
        if i >= ROOM {
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
        self.len == ROOM
    }

    /// Becomes the block after one that is full.
    pub(super) fn follow(&mut self, full: &Block) {
        self.len = 0;
        for i in TOGETHER..ROOM {
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

    /// Cycles of each turn: until the next.
    #[inline]
    pub(super) fn cycles(&self, turns: &Range<usize>) -> impl Iterator<Item = u64> {
        steps(&self.cycles[turns.start..turns.end + 1])
    }

    /// Packets of each turn: since the one before.
    #[inline]
    pub(super) fn packets(&self, turns: &Range<usize>) -> impl Iterator<Item = u64> {
        steps(&self.packets[turns.start - 1..turns.end])
    }

    /// Upcalls of all these turns: since the one before the first.
    pub(super) fn upcalls(&self, turns: &Range<usize>) -> u64 {
        self.upcalls[turns.end - 1].saturating_sub(self.upcalls[turns.start - 1])
    }

    /// Turns, at least one, none of which is the first or last of the block, as one sample with the stamp of the last.
    pub(super) fn sum(&self, turns: Range<usize>) -> Sample {
        let (before, last) = (turns.start - 1, turns.end - 1);
        let since = |column: &[u64; ROOM]| column[last].saturating_sub(column[before]);
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
