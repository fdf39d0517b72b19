//! Fields of tunnel options in a match.
//!
//! A match that was parsed from text or from a message has its own layout, with the fields ordered by index. Before a switch
//! uses the match, it converts the match to the layout of its own flows.

use super::{ALL_FIELDS_BYTES_MAX, FIELD_BYTES_MAX, FIELDS, Layout, TlvValue, significant};
use crate::matching::Match;
use thiserror::Error;

/// The match on one field.
#[derive(Clone, Copy)]
pub struct TlvMatch {
    /// Index of the field.
    pub index: usize,
    /// True: the packet must have the option; false: it must not have the option.
    pub present: bool,
    /// The value, zero where `mask` is zero.
    pub value: TlvValue,
    /// The matched bits; none if only the presence is matched.
    pub mask: TlvValue,
}

impl TlvMatch {
    /// Returns whether all bits of the field are matched, and the field is not empty.
    pub fn is_exact(&self) -> bool {
        !self.mask.is_empty() && self.mask.iter().all(|b| *b == 0xff)
    }

    /// Returns whether no bit of the value is matched, so only the presence of the option.
    pub fn is_presence(&self) -> bool {
        self.mask.iter().all(|b| *b == 0)
    }
}

/// Why a field cannot be added to a match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TlvMatchError {
    /// The match contains the field already.
    #[error("field tun_metadata{0} set multiple times")]
    AlreadyMatched(usize),
    /// All fields together are too long.
    #[error(
        "field tun_metadata{index} exceeds maximum size for tunnel metadata (used {used}, max {})",
        ALL_FIELDS_BYTES_MAX
    )]
    Space {
        /// Index of the field.
        index: usize,
        /// Bytes that all fields need, including this one.
        used: usize,
    },
}

impl Match {
    /// The matched fields.
    pub fn tlvs(&self) -> impl Iterator<Item = TlvMatch> + '_ {
        let mut rest = self.mask.tlv.present;
        std::iter::from_fn(move || {
            let index = rest.trailing_zeros() as usize;
            rest &= rest.wrapping_sub(1);
            (index < FIELDS).then_some(index)
        })
        .filter_map(|index| self.tlv(index))
    }

    /// The match on a field; `None` if it is not matched.
    pub fn tlv(&self, index: usize) -> Option<TlvMatch> {
        self.mask.has_tlv(index).then(|| TlvMatch {
            index,
            present: self.flow.has_tlv(index),
            value: self.flow.tlv(index),
            mask: self.mask.tlv(index),
        })
    }

    /// Matches the presence of an option and the bits of its value that are set in `mask`.
    pub fn set_tlv(&mut self, index: usize, value: &[u8], mask: &[u8]) {
        self.mask.set_tlv(index, mask);
        self.flow.set_tlv(index, value);
        self.flow = self.flow.masked(&self.mask);
    }

    /// Allocates as many slots for the field as its mask needs, and then does the same as [`set_tlv`](Self::set_tlv).
    /// Without a mask, all bits of the value are matched.
    pub fn allocate_tlv(
        &mut self,
        index: usize,
        value: &[u8],
        mask: Option<&[u8]>,
    ) -> Result<(), TlvMatchError> {
        // A value, even zero, has at least one byte. A field without bytes means that only the presence of the option is
        // matched.
        let len = mask.map_or(value.len().max(1), |m| significant(m).len());
        let old = self.flow.layout;
        if old.has(index) {
            return Err(TlvMatchError::AlreadyMatched(index));
        }
        // Fields are ordered by index, so that equal matches are equal structures.
        let len_of = |i| if i == index { len } else { old.len(i) };
        let mut layout = Layout::EMPTY;
        for i in (0..FIELDS).filter(|i| *i == index || old.has(*i)) {
            if !layout.allocate(i, len_of(i)) {
                return Err(TlvMatchError::Space { index, used: old.used() + len });
            }
        }
        *self = self.with_tlv_layout(&layout);
        self.set_tlv(index, value, mask.unwrap_or(&TlvValue::ones(FIELD_BYTES_MAX)));
        Ok(())
    }

    /// Sets the layout. The existing fields must already be in the slots of this layout.
    pub fn set_layout(&mut self, layout: Layout) {
        (self.flow.layout, self.mask.layout) = (layout, layout);
    }

    /// The match, converted to the layout of a switch's flows, without the fields that the switch has not mapped.
    pub fn with_tlv_layout(&self, layout: &Layout) -> Match {
        let mut out = *self;
        for f in [&mut out.flow, &mut out.mask] {
            (f.tlv, f.layout) = (super::Tlv::NONE, *layout);
        }
        for t in self.tlvs().filter(|t| layout.has(t.index)) {
            let all = TlvValue::ones(layout.len(t.index));
            out.set_tlv(t.index, &t.value, if t.is_exact() { &all } else { &t.mask });
            if !t.present {
                out.flow.delete_tlv(t.index);
            }
        }
        out
    }
}
