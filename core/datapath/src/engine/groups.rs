//! The groups of a batch: packets that have the same megaflow, and where they go.

use crate::action::hash;
use crate::batch::{BATCH, Batch, NONE};
use crate::packet::Meta;
use crate::port::{Frame, FrameBatch};
use crate::program::{Program, REWRITES, Sum};
use dpif::DropReason;

/// Packets that go through a program together.
#[derive(Default)]
pub(crate) struct Group {
    pub(crate) frames: FrameBatch,
    /// The metadata of each, or none: that of all is the batch's.
    pub(crate) own: Vec<Meta>,
    /// The number of each in the batch; none once their bytes have changed.
    pub(crate) numbers: Vec<u8>,
}

/// Where packets of a group go.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Way {
    Send(u32),
    RewriteAndSend(u32),
    /// They stay in the batch, to be looked up again.
    Again(Step),
    Drop(DropReason),
    /// To a list of this number.
    Gather(usize),
}

impl Way {
    /// Of a program; `gathered` lists there are before. `plain`: nothing but its bytes matters about a packet that is
    /// sent.
    pub(crate) fn of(program: &Program, gathered: usize, plain: bool) -> Way {
        match program.sum {
            Sum::Send { port, does: 0 } if plain => Way::Send(port),
            Sum::Send { port, does: REWRITES } if plain => Way::RewriteAndSend(port),
            Sum::Drop(reason) => Way::Drop(reason),
            _ => Way::Gather(gathered),
        }
    }
}

/// How a key changes on the way to its next pass.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Step {
    pub(crate) id: u32,
    /// Symmetric, and basis.
    pub(crate) hash: Option<(bool, u32)>,
}

impl Step {
    /// Of a program that changes nothing else.
    #[inline]
    pub(crate) fn of(sum: Sum) -> Option<Step> {
        match sum {
            Sum::Again(id) => Some(Step { id, hash: None }),
            Sum::HashAndAgain { symmetric, basis, id } => Some(Step { id, hash: Some((symmetric, basis)) }),
            _ => None,
        }
    }

    /// Takes packet `i` of the batch this step.
    #[inline]
    pub(crate) fn take(self, batch: &mut Batch, i: usize, frame: &Frame) {
        let hashed = self.hash.map(|(symmetric, basis)| {
            hash::hash(frame.bytes(), &batch.common, batch.key_to_ports(Some(i as u8)), symmetric, basis)
        });
        batch.again(i, self.id, hashed);
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
/// No chain is longer than a batch. A slot counts only if the group that it names points back, so no slot is cleared between batches.
pub(crate) struct Groups {
    pub(crate) len: usize,
    pub(crate) index: [u32; BATCH],
    pub(crate) way: [Way; BATCH],
    pub(crate) count: [Count; BATCH],
    slot: [u8; BATCH],
    slots: [u8; SLOTS],
    /// The group of each packet, or [`NO_GROUP`].
    pub(crate) of: [u8; BATCH],
    /// Packets of programs of several operations: the group and its packets.
    pub(crate) gathered: Vec<(usize, Group)>,
    /// Packets that take a step: the number of each in the batch.
    pub(crate) again: Vec<(usize, Step, Frame)>,
}

/// More than there are groups, so that a free slot is always found.
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
    /// The group of a megaflow, or else the slot for it.
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

    /// A group more. There are no more groups than packets, so there is room.
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
