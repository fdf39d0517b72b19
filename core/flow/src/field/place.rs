//! The place of a field in a `Flow`, so that common code reads and writes all fields.

use super::bits::low_bits;
use crate::flow::{Flow, Vlan};
use std::mem::offset_of;
use zerocopy::IntoBytes;

/// `count` units of `unit` bytes at `offset`, the most significant first, each in host order. The value is the bits
/// `keep` of this number, shifted right by `shift`. Addresses have units of one byte.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    offset: usize,
    unit: u8,
    count: u8,
    keep: u128,
    shift: u8,
    /// The words of a flow that contain it, as a bit set.
    words: u128,
    /// For a single unit: index of the word in the flow, the field's bits there, and their shift.
    word: usize,
    kept: u64,
    left: u8,
    /// Writing the field has no side effect, and all its bits are in this word.
    plain: bool,
}

pub(super) const fn at(offset: usize, unit: u8, count: u8, keep: u128, shift: u8) -> Place {
    let (first, behind) = (offset / 8, (offset + unit as usize * count as usize).div_ceil(8));
    let words = (1 << behind) - (1 << first);
    assert!(count != 1 || offset.is_multiple_of(unit as usize), "a unit lies in one word");
    let low = if cfg!(target_endian = "little") { offset % 8 } else { 8 - offset % 8 - unit as usize };
    let (kept, left) = ((keep as u64) << (8 * low), shift + 8 * low as u8);
    Place { offset, unit, count, keep, shift, words, word: first, kept, left, plain: false }
}

/// An address: `n` bytes in wire order.
pub(super) const fn bytes(offset: usize, n: u8) -> Place {
    let keep = if n == 16 { u128::MAX } else { (1 << (8 * n as u32)) - 1 };
    at(offset, 1, n, keep, 0)
}

/// `n` registers from the one of this index.
pub(super) const fn reg(index: usize, n: u8) -> Place {
    let keep = if n == 4 { u128::MAX } else { (1 << (32 * n as u32)) - 1 };
    at(offset_of!(Flow, regs) + 4 * index, 4, n, keep, 0)
}

/// Bits of the TCI of the outer VLAN tag.
pub(super) const fn vlan(keep: u128, shift: u8) -> Place {
    at(offset_of!(Flow, vlans) + offset_of!(Vlan, tci), 2, 1, keep, shift)
}

/// Bits of the outer MPLS label stack entry.
pub(super) const fn mpls(keep: u128, shift: u8) -> Place {
    at(offset_of!(Flow, mpls_lse), 4, 1, keep, shift)
}

/// The place of a field of tunnel options depends on the flow; see `tlv`.
pub(super) const TLV: Place = at(0, 1, 0, 0, 0);

impl Place {
    /// Returns the place of a field that is `n_bits` wide. `plain`: the flow holds the field's value unchanged, and
    /// writing it has no other effect. The place is plain only if its width is also `n_bits`.
    pub(super) const fn of_field(self, n_bits: u16, plain: bool) -> Place {
        let fits = self.keep >> self.shift == low_bits(n_bits as u32);
        Place { plain: fits && plain, ..self }
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
            return ((flow.words()[self.word] & self.kept) >> self.left).into();
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
            let (value, bits) = ((value as u64) << self.left, (mask as u64) << self.left & self.kept);
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

    /// Loads the whole number that contains the field.
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

    /// All bits of the place, as a value.
    #[inline]
    pub(super) fn ones(&self) -> u128 {
        self.keep >> self.shift
    }
}

/// Loads a number of this many bytes.
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
        1 => put(rest, (value as u8).to_ne_bytes()),
        2 => put(rest, (value as u16).to_ne_bytes()),
        4 => put(rest, (value as u32).to_ne_bytes()),
        _ => put(rest, value.to_ne_bytes()),
    }
}

#[inline]
fn put<const N: usize>(bytes: &mut [u8], value: [u8; N]) {
    if let Some(unit) = bytes.first_chunk_mut() {
        *unit = value;
    }
}
