//! The groups of a batch: packets with the same megaflow, and how each group is executed.

use crate::batch::{BATCH, NONE};
use crate::packet::Meta;
use crate::port::{Frame, FrameBatch};
use crate::program::{Program, Summary};
use crate::recirculation::Recirculation;
use crate::steps::REWRITES;
use dpif::DropReason;

/// Frames on which one program is executed together.
#[derive(Default)]
pub(crate) struct Group {
    pub(crate) frames: FrameBatch,
    /// Metadata of each frame; empty if all frames have the common metadata of the batch.
    pub(crate) own: Vec<Meta>,
    /// Index of each frame in the batch; empty after the frames' bytes have changed.
    pub(crate) numbers: Vec<u8>,
}

/// How the packets of a group are executed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Execution {
    /// The packets are sent by this port.
    Send(u32),
    /// The packets are rewritten and sent by this port.
    RewriteAndSend(u32),
    /// The packets stay in the batch, to be looked up again.
    Recirculate(Recirculation),
    Drop(DropReason),
    /// The packets are collected in the list with this number, and are executed together.
    Collect(usize),
}

impl Execution {
    /// Selects the execution of a program. `collected`: number of lists so far. `plain`: the packets are Ethernet, are not truncated and
    /// select no QoS queue, so their frames can be sent without metadata.
    pub(crate) fn of(program: &Program, collected: usize, plain: bool) -> Execution {
        match program.summary {
            Summary::Send { port, op_flags: 0 } if plain => Execution::Send(port),
            Summary::Send { port, op_flags: REWRITES } if plain => Execution::RewriteAndSend(port),
            Summary::Drop(reason) => Execution::Drop(reason),
            _ => Execution::Collect(collected),
        }
    }
}

/// Counts of one group.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Count {
    pub(crate) packets: u32,
    pub(crate) bytes: u64,
    pub(crate) tcp_flags: u16,
}

/// The groups of a batch, and a hash table of them by the indices of their megaflows.
///
/// No probe is longer than a batch. A slot is valid only if its group refers back to it, so slots need not be cleared
/// between batches.
pub(crate) struct Groups {
    pub(crate) len: usize,
    pub(crate) index: [u32; BATCH],
    pub(crate) execution: [Execution; BATCH],
    pub(crate) count: [Count; BATCH],
    slot: [u8; BATCH],
    slots: [u8; SLOTS],
    /// The group of each packet, or [`NO_GROUP`].
    pub(crate) group_of: [u8; BATCH],
    /// The packets of programs with several operations: the index of their group, and the packets.
    pub(crate) collected: Vec<(usize, Group)>,
    /// Packets to be looked up again: their index in the batch, and their frame.
    pub(crate) recirculated: Vec<(usize, Frame)>,
}

/// More than the maximum number of groups, so that a free slot always exists.
const SLOTS: usize = 2 * BATCH;
pub(crate) const NO_GROUP: u8 = u8::MAX;

impl Default for Groups {
    fn default() -> Groups {
        Groups {
            len: 0,
            index: [NONE; BATCH],
            execution: [Execution::Collect(0); BATCH],
            count: [Count::default(); BATCH],
            slot: [0; BATCH],
            slots: [0; SLOTS],
            group_of: [NO_GROUP; BATCH],
            collected: Vec::new(),
            recirculated: Vec::new(),
        }
    }
}

impl Groups {
    /// Returns the group of a megaflow, or `Err` with the slot where it can be added.
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
    pub(crate) fn add(&mut self, index: u32, slot: usize, execution: Execution) -> usize {
        let group = self.len % BATCH;
        self.slots[slot] = group as u8;
        self.slot[group] = slot as u8;
        (self.index[group], self.execution[group], self.count[group]) = (index, execution, Count::default());
        self.len += 1;
        group
    }
}
