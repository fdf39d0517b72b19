//! Reads and writes a field of tunnel options in a flow or mask.

use super::layout::SLOT;
use super::{FIELD_BYTES_MAX, TlvValue};
use crate::flow::Flow;

impl Flow {
    /// Returns whether the packet has the option of this field. In a mask: whether the presence of the option is matched.
    pub fn has_tlv(&self, index: usize) -> bool {
        self.layout.has(index) && self.tlv.present & 1 << index != 0
    }

    /// The value of a field; empty if it is not mapped.
    pub fn tlv(&self, index: usize) -> TlvValue {
        let mut out = TlvValue { bytes: [0; FIELD_BYTES_MAX], len: 0 };
        for slot in self.layout.slots(index) {
            let from = &self.tlv.data[SLOT * slot..SLOT * (slot + 1)];
            out.bytes[out.len..out.len + SLOT].copy_from_slice(from);
            out.len += SLOT;
        }
        out
    }

    /// Writes all bytes of a field; a shorter value is padded with leading zeros. A field that is not mapped stays absent.
    pub fn set_tlv(&mut self, index: usize, value: &[u8]) {
        if !self.layout.has(index) {
            return;
        }
        let value = TlvValue::of_len(value, self.layout.len(index));
        let layout = self.layout;
        for (slot, part) in layout.slots(index).zip(value.chunks_exact(SLOT)) {
            self.tlv.data[SLOT * slot..SLOT * (slot + 1)].copy_from_slice(part);
        }
        self.tlv.present |= 1 << index;
    }

    /// Removes a field.
    pub fn delete_tlv(&mut self, index: usize) {
        if self.layout.has(index) {
            self.set_tlv(index, &[]);
            self.tlv.present &= !(1 << index);
        }
    }

    /// Up to 128 bits of a field from bit `ofs` upwards; bits that the field does not have are zero.
    pub fn tlv_bits(&self, index: usize, ofs: usize, n_bits: usize) -> u128 {
        let value = self.tlv(index);
        (0..n_bits.min(128)).fold(0, |v, i| v | u128::from(bit(&value, ofs + i)) << i)
    }

    /// Writes up to 128 bits of a field.
    pub fn set_tlv_bits(&mut self, index: usize, ofs: usize, n_bits: usize, bits: u128) {
        let mut value = self.tlv(index);
        let len = value.len;
        for at in (0..n_bits.min(128)).filter(|at| (ofs + at) / 8 < len) {
            let byte = &mut value.bytes[len - 1 - (ofs + at) / 8];
            let keep = *byte & !(1 << ((ofs + at) % 8));
            *byte = keep | ((bits >> at & 1) as u8) << ((ofs + at) % 8);
        }
        self.set_tlv(index, &value);
    }
}

fn bit(value: &[u8], at: usize) -> bool {
    value.iter().rev().nth(at / 8).is_some_and(|byte| byte >> (at % 8) & 1 != 0)
}
