//! Fields of options in a match.
//!
//! A match that was read from text or a message brings its own layout, with the fields in their order. Before a switch uses
//! it, it is laid out as the switch's flows are.

use super::{FIELD_BYTES_MAX, FIELDS, Layout, SPACE, TlvValue, significant};
use crate::matching::Match;
use thiserror::Error;

/// What a match asks of one field.
#[derive(Clone, Copy)]
pub struct TlvMatch {
    /// Which field.
    pub index: usize,
    /// The packet has the option, or has it not.
    pub present: bool,
    /// Value, zero where `mask` is.
    pub value: TlvValue,
    /// Which bits count; none: it is enough that the option is there.
    pub mask: TlvValue,
}

impl TlvMatch {
    /// All bits of the field count, and there are some.
    pub fn is_exact(&self) -> bool {
        !self.mask.is_empty() && self.mask.iter().all(|b| *b == 0xff)
    }

    /// No bit counts.
    pub fn is_presence(&self) -> bool {
        self.mask.iter().all(|b| *b == 0)
    }
}

/// Why a field finds no place in a match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TlvMatchError {
    /// It is there already.
    #[error("field tun_metadata{0} set multiple times")]
    Again(usize),
    /// All fields together are too long.
    #[error(
        "field tun_metadata{index} exceeds maximum size for tunnel metadata (used {used}, max {})",
        SPACE
    )]
    Space {
        /// Which one.
        index: usize,
        /// Bytes with it.
        used: usize,
    },
}

impl Match {
    /// The fields that are looked at.
    pub fn tlvs(&self) -> impl Iterator<Item = TlvMatch> + '_ {
        let mut rest = self.mask.tlv.present;
        std::iter::from_fn(move || {
            let index = rest.trailing_zeros() as usize;
            rest &= rest.wrapping_sub(1);
            (index < FIELDS).then_some(index)
        })
        .filter_map(|index| self.tlv(index))
    }

    /// What is asked of a field; `None`: nothing.
    pub fn tlv(&self, index: usize) -> Option<TlvMatch> {
        self.mask.has_tlv(index).then(|| TlvMatch {
            index,
            present: self.flow.has_tlv(index),
            value: self.flow.tlv(index),
            mask: self.mask.tlv(index),
        })
    }

    /// Asks for an option and for the bits of its value that are in `mask`.
    pub fn set_tlv(&mut self, index: usize, value: &[u8], mask: &[u8]) {
        self.mask.set_tlv(index, mask);
        self.flow.set_tlv(index, value);
        self.flow = self.flow.masked(&self.mask);
    }

    /// As `set_tlv`, and makes room for the field, as much as its mask asks for. Without a mask all bits of the value
    /// count.
    pub fn place_tlv(
        &mut self,
        index: usize,
        value: &[u8],
        mask: Option<&[u8]>,
    ) -> Result<(), TlvMatchError> {
        // A value, be it zero, has a byte: only so it differs from the mere presence of the option.
        let len = mask.map_or(value.len().max(1), |m| significant(m).len());
        let old = self.flow.layout;
        if old.has(index) {
            return Err(TlvMatchError::Again(index));
        }
        // In whatever order fields come, equal matches are equal.
        let len_of = |i| if i == index { len } else { old.len(i) };
        let mut layout = Layout::EMPTY;
        for i in (0..FIELDS).filter(|i| *i == index || old.has(*i)) {
            if !layout.allocate(i, len_of(i)) {
                return Err(TlvMatchError::Space { index, used: old.used() + len });
            }
        }
        *self = self.laid_out(&layout);
        self.set_tlv(index, value, mask.unwrap_or(&TlvValue::ones(FIELD_BYTES_MAX)));
        Ok(())
    }

    /// From here on the fields lie as this says; those that are there must lie so already.
    pub fn set_layout(&mut self, layout: Layout) {
        (self.flow.layout, self.mask.layout) = (layout, layout);
    }

    /// The same match, laid out as the flows of a switch, without the fields that the switch does not know.
    pub fn laid_out(&self, layout: &Layout) -> Match {
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
