//! Values of fields of tunnel options.

use super::bounds::FIELD_BYTES_MAX;
use std::ops::Deref;

/// The value of a field; it has the length of the field.
#[derive(Clone, Copy)]
pub struct TlvValue {
    pub(super) bytes: [u8; FIELD_BYTES_MAX],
    pub(super) len: usize,
}

impl TlvValue {
    /// The low `len` bytes of a value; a shorter value is padded with leading zeros.
    pub fn of_len(value: &[u8], len: usize) -> TlvValue {
        let len = len.min(FIELD_BYTES_MAX);
        let mut bytes = [0; FIELD_BYTES_MAX];
        for (to, from) in bytes[..len].iter_mut().rev().zip(value.iter().rev()) {
            *to = *from;
        }
        TlvValue { bytes, len }
    }

    /// `len` bytes with all bits set.
    pub fn ones(len: usize) -> TlvValue {
        TlvValue { bytes: [0xff; FIELD_BYTES_MAX], len: len.min(FIELD_BYTES_MAX) }
    }
}

impl Deref for TlvValue {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// The bytes without leading zeros.
pub fn significant(bytes: &[u8]) -> &[u8] {
    let zeros = bytes.iter().take_while(|b| **b == 0).count();
    &bytes[zeros..]
}
