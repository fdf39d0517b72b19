//! Assigns the bytes of [`Tlv::data`](super::Tlv::data) to fields.

use super::{ALL_FIELDS_BYTES_MAX, FIELDS};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Length of a slot in bytes, which is the unit of an option's length (RFC 8926 §3.5).
pub(super) const SLOT: usize = 4;
const SLOTS: usize = ALL_FIELDS_BYTES_MAX / SLOT;

/// The slots of each field. The layout is part of a flow, so that the fields can be read from the flow alone.
///
/// The slots of a field need not be adjacent: free slots are reused for fields of any size, and an existing field
/// never moves. **Invariant**: if a slot has an owner, the owner is mapped.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Layout {
    /// The mapped fields, as a bit set.
    mapped: u64,
    /// For each slot, the index of its field plus one; 0: the slot is free.
    owner: [u8; SLOTS],
}

impl Default for Layout {
    fn default() -> Layout {
        Layout::EMPTY
    }
}

impl Layout {
    /// No field is mapped.
    pub const EMPTY: Layout = Layout { mapped: 0, owner: [0; SLOTS] };

    /// Returns whether no field is mapped.
    pub fn is_empty(&self) -> bool {
        self.mapped == 0
    }

    /// Returns whether the field is mapped; it may have no bytes.
    pub fn has(&self, index: usize) -> bool {
        index < FIELDS && self.mapped & 1 << index != 0
    }

    /// Length of a field in bytes.
    pub fn len(&self, index: usize) -> usize {
        SLOT * self.slots(index).count()
    }

    /// Length of all fields in bytes.
    pub fn used(&self) -> usize {
        SLOT * self.owner.iter().filter(|&&o| o != 0).count()
    }

    /// The slots of a field, the most significant first.
    pub(super) fn slots(&self, index: usize) -> impl Iterator<Item = usize> + '_ {
        let owner = if self.has(index) { index as u8 + 1 } else { u8::MAX };
        self.owner.iter().enumerate().filter(move |(_, o)| **o == owner).map(|(slot, _)| slot)
    }

    /// Maps a field and allocates its slots. Returns false and changes nothing if the field is mapped already, or if too few
    /// slots are free.
    pub fn allocate(&mut self, index: usize, len: usize) -> bool {
        let wanted = len.div_ceil(SLOT);
        if index >= FIELDS || self.has(index) || self.used() + SLOT * wanted > ALL_FIELDS_BYTES_MAX {
            return false;
        }
        for owner in self.owner.iter_mut().filter(|o| **o == 0).take(wanted) {
            *owner = index as u8 + 1;
        }
        self.mapped |= 1 << index;
        true
    }

    /// Unmaps a field and frees its slots.
    pub fn release(&mut self, index: usize) {
        if self.has(index) {
            self.owner.iter_mut().filter(|o| **o == index as u8 + 1).for_each(|o| *o = 0);
            self.mapped &= !(1 << index);
        }
    }
}
