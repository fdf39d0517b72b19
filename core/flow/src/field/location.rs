//! The location of a field in a `Flow`, by which common code reads and writes all fields.

use super::bits::low_bits;
use crate::flow::{Flow, Vlan};
use std::mem::offset_of;
use zerocopy::IntoBytes;

/// The location of a field. The flow has `count` units of `unit` bytes at `offset`, the most significant first, each in host
/// order. The field's value is the bits `keep` of this number, shifted right by `shift`. Addresses have units of one byte.
#[derive(Clone, Copy, Debug)]
pub(super) struct FieldLocation {
    offset: usize,
    unit: u8,
    count: u8,
    keep: u128,
    shift: u8,
    /// The words of a flow that contain the field, as a bit set.
    words: u128,
    /// For a single unit: index of the word in the flow.
    word: usize,
    /// For a single unit: the field's bits in the word.
    word_mask: u64,
    /// For a single unit: how far the field's value is shifted in the word.
    word_shift: u8,
    /// The flow contains the field's value unchanged, and a write has no other effect.
    plain: bool,
}

/// The location of a field; the parameters are the fields of [`FieldLocation`].
pub(super) const fn at(offset: usize, unit: u8, count: u8, keep: u128, shift: u8) -> FieldLocation {
    let (first, end) = (offset / 8, (offset + unit as usize * count as usize).div_ceil(8));
    let words = (1 << end) - (1 << first);
    assert!(count != 1 || offset.is_multiple_of(unit as usize), "a unit lies in one word");
    let low = if cfg!(target_endian = "little") { offset % 8 } else { 8 - offset % 8 - unit as usize };
    let (word_mask, word_shift) = ((keep as u64) << (8 * low), shift + 8 * low as u8);
    FieldLocation {
        offset,
        unit,
        count,
        keep,
        shift,
        words,
        word: first,
        word_mask,
        word_shift,
        plain: false,
    }
}

/// The location of an address: `n` bytes in wire order.
pub(super) const fn bytes(offset: usize, n: u8) -> FieldLocation {
    let keep = if n == 16 { u128::MAX } else { (1 << (8 * n as u32)) - 1 };
    at(offset, 1, n, keep, 0)
}

/// The location of `n` registers, beginning with register `index`.
pub(super) const fn reg(index: usize, n: u8) -> FieldLocation {
    let keep = if n == 4 { u128::MAX } else { (1 << (32 * n as u32)) - 1 };
    at(offset_of!(Flow, regs) + 4 * index, 4, n, keep, 0)
}

/// The location of bits of the outer VLAN tag's TCI.
pub(super) const fn vlan(keep: u128, shift: u8) -> FieldLocation {
    at(offset_of!(Flow, vlans) + offset_of!(Vlan, tci), 2, 1, keep, shift)
}

/// The location of bits of the outer MPLS label stack entry.
pub(super) const fn mpls(keep: u128, shift: u8) -> FieldLocation {
    at(offset_of!(Flow, mpls_lse), 4, 1, keep, shift)
}

/// Fields of tunnel options have no fixed location: it depends on the flow's layout; see `tlv`.
pub(super) const TLV: FieldLocation = at(0, 1, 0, 0, 0);

impl FieldLocation {
    /// The location of a field that is `n_bits` wide. `plain`: the flow contains the field's value unchanged, and a write has no
    /// other effect. The location is plain only if its width is also `n_bits`.
    pub(super) const fn of_field(self, n_bits: u16, plain: bool) -> FieldLocation {
        let fits = self.keep >> self.shift == low_bits(n_bits as u32);
        FieldLocation { plain: fits && plain, ..self }
    }

    pub(super) fn words(&self) -> u128 {
        self.words
    }

    #[inline]
    pub(super) fn is_plain(&self) -> bool {
        self.plain
    }

    #[inline]
    pub(super) fn get(&self, flow: &Flow) -> u128 {
        if self.count == 1 {
            return ((flow.words()[self.word] & self.word_mask) >> self.word_shift).into();
        }
        (self.load(flow) & self.keep) >> self.shift
    }

    #[inline]
    pub(super) fn set(&self, flow: &mut Flow, value: u128) {
        self.set_masked(flow, value, self.ones());
    }

    /// Writes the bits of the value that are set in `mask`.
    #[inline(always)]
    pub(super) fn set_masked(&self, flow: &mut Flow, value: u128, mask: u128) {
        if self.count == 1 {
            let (value, bits) =
                ((value as u64) << self.word_shift, (mask as u64) << self.word_shift & self.word_mask);
            let word = &mut flow.words_mut()[self.word];
            *word = *word & !bits | value & bits;
        } else {
            self.set_wide(flow, value, mask);
        }
    }

    fn set_wide(&self, flow: &mut Flow, value: u128, mask: u128) {
        let (value, bits) = (value << self.shift, mask << self.shift & self.keep);
        let old = self.load(flow);
        self.store(flow, old & !bits | value & bits);
    }

    /// Loads the number that contains the field.
    fn load(&self, flow: &Flow) -> u128 {
        let (bytes, unit) = (flow.as_bytes(), usize::from(self.unit));
        if unit == 1 {
            let mut number = [0; 16];
            let (at, n) = (self.offset, usize::from(self.count).min(16));
            number[16 - n..].copy_from_slice(bytes.get(at..at + n).unwrap_or(&[0; 16][..n]));
            return u128::from_be_bytes(number);
        }
        let units = (0..usize::from(self.count)).map(|i| load_unit(bytes, self.offset + unit * i, self.unit));
        units.fold(0, |n, v| n << (8 * unit) | u128::from(v))
    }

    fn store(&self, flow: &mut Flow, value: u128) {
        let (bytes, unit) = (flow.as_mut_bytes(), usize::from(self.unit));
        if unit == 1 {
            let (at, n) = (self.offset, usize::from(self.count).min(16));
            if let Some(slot) = bytes.get_mut(at..at + n) {
                slot.copy_from_slice(&value.to_be_bytes()[16 - n..]);
            }
            return;
        }
        let mut rest = value;
        for i in (0..usize::from(self.count)).rev() {
            store_unit(bytes, self.offset + unit * i, self.unit, rest as u64);
            rest >>= 8 * unit;
        }
    }

    /// The value with all bits of the location set.
    #[inline]
    pub(super) fn ones(&self) -> u128 {
        self.keep >> self.shift
    }
}

/// Loads a number of `unit` bytes.
#[inline]
fn load_unit(bytes: &[u8], offset: usize, unit: u8) -> u64 {
    let rest = bytes.get(offset..).unwrap_or(&[]);
    match unit {
        1 => rest.first().map_or(0, |byte| u64::from(*byte)),
        2 => rest.first_chunk().map_or(0, |v| u16::from_ne_bytes(*v).into()),
        4 => rest.first_chunk().map_or(0, |v| u32::from_ne_bytes(*v).into()),
        _ => rest.first_chunk().map_or(0, |v| u64::from_ne_bytes(*v)),
    }
}

#[inline]
fn store_unit(bytes: &mut [u8], offset: usize, unit: u8, value: u64) {
    let rest = bytes.get_mut(offset..).unwrap_or(&mut []);
    match unit {
        1 => write_bytes(rest, (value as u8).to_ne_bytes()),
        2 => write_bytes(rest, (value as u16).to_ne_bytes()),
        4 => write_bytes(rest, (value as u32).to_ne_bytes()),
        _ => write_bytes(rest, value.to_ne_bytes()),
    }
}

#[inline]
fn write_bytes<const N: usize>(bytes: &mut [u8], value: [u8; N]) {
    if let Some(unit) = bytes.first_chunk_mut() {
        *unit = value;
    }
}
