//! The groups of a batch: packets with the same megaflow, and what happens with them.

use super::step::Step;
use crate::batch::{BATCH, NONE};
use crate::packet::Meta;
use crate::port::{Frame, FrameBatch};
use crate::program::{Program, REWRITES, Sum};
use dpif::DropReason;

/// Frames that go through a program together.
#[derive(Default)]
pub(crate) struct Group {
    pub(crate) frames: FrameBatch,
    /// Metadata of each; empty if all have the batch's.
    pub(crate) own: Vec<Meta>,
    /// Index of each in the batch; empty after their bytes have changed.
    pub(crate) numbers: Vec<u8>,
}

/// What happens with the packets of a group.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Way {
    Send(u32),
    RewriteAndSend(u32),
    /// They stay in the batch, to be looked up again.
    Again(Step),
    Drop(DropReason),
    /// They are collected in the list with this number.
    Gather(usize),
}

impl Way {
    /// The way of a program. `gathered`: number of lists so far. `plain`: only the bytes of packets matter
    /// when they are sent.
    pub(crate) fn of(program: &Program, gathered: usize, plain: bool) -> Way {
        match program.sum {
            Sum::Send { port, does: 0 } if plain => Way::Send(port),
            Sum::Send { port, does: REWRITES } if plain => Way::RewriteAndSend(port),
            Sum::Drop(reason) => Way::Drop(reason),
            _ => Way::Gather(gathered),
        }
    }
}

/// What a megaflow counts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Count {
    pub(crate) packets: u32,
    pub(crate) bytes: u64,
    pub(crate) tcp_flags: u16,
}

/// The groups of a batch, and a hash table of them by the indices of their megaflows.
///
/// No chain is longer than a batch. A slot is valid only if its group refers back to it, so slots are not
/// cleared between batches.
pub(crate) struct Groups {
    pub(crate) len: usize,
    pub(crate) index: [u32; BATCH],
    pub(crate) way: [Way; BATCH],
    pub(crate) count: [Count; BATCH],
    slot: [u8; BATCH],
    slots: [u8; SLOTS],
    /// The group of each packet, or [`NO_GROUP`].
    pub(crate) of: [u8; BATCH],
    /// Packets of programs with several operations: the index of the group and its packets.
    pub(crate) gathered: Vec<(usize, Group)>,
    /// Packets that take a step: the index of each in the batch.
    pub(crate) again: Vec<(usize, Step, Frame)>,
}

/// More than the maximum number of groups, so that a free slot always exists.
const SLOTS: usize = 2 * BATCH;
pub(crate) const NO_GROUP: u8 = u8::MAX;

impl Default for Groups {
    fn default() -> Groups {
        Groups {
            len: 0,
            index: [NONE; BATCH],
            way: [Way::Gather(0); BATCH],
            count: [Count::default(); BATCH],
            slot: [0; BATCH],
            slots: [0; SLOTS],
            of: [NO_GROUP; BATCH],
            gathered: Vec::new(),
            again: Vec::new(),
        }
    }
}

impl Groups {
    /// Returns the group of a megaflow, or else the slot for it.
    #[inline]
    pub(crate) fn find(&self, index: u32) -> Result<usize, usize> {
        let mut slot = index as usize % SLOTS;
        loop {
            let group = usize::from(self.slots[slot]);
            if group >= self.len || usize::from(self.slot[group % BATCH]) != slot {
                return Err(slot);
            }
            if self.index[group] == index {
                return Ok(group);
            }
            slot = (slot + 1) % SLOTS;
        }
    }

    /// Adds a group. There are at most as many groups as packets, so the array is large enough.
    #[inline]
    pub(crate) fn add(&mut self, index: u32, slot: usize, way: Way) -> usize {
        let group = self.len % BATCH;
        self.slots[slot] = group as u8;
        self.slot[group] = slot as u8;
        (self.index[group], self.way[group], self.count[group]) = (index, way, Count::default());
        self.len += 1;
        group
    }
}
