//! TLV options of a tunnel's header (Geneve, RFC 8926 §3.5) and the fields `tun_metadata0` to `tun_metadata63`.
//!
//! A switch is told which option is which field ([`TlvTable`]). In the control half each field has its place among the
//! bytes of [`Tlv`], so that classifiers and masks work on it as on all else; the [`Layout`] that says where is part of
//! the flow. In `dpif` a flow has the options as they stand in the header, and no layout: the datapath does not know
//! what they mean.
//!
//! Values are bytes, the most significant first, since they are wider than any number; shorter ones are meant to have
//! zeros before them.

mod access;
mod layout;
mod matching;
mod options;
mod table;
#[cfg(test)]
mod tests;

pub use layout::Layout;
pub use matching::{TlvMatch, TlvMatchError};
pub use options::{OptionsError, TlvOption};
pub use table::{Mapping, TlvError, TlvTable};

use std::fmt;
use std::ops::Deref;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// `tun_metadata0` to `tun_metadata63`.
pub const FIELDS: usize = 64;
/// Bytes that all fields of a packet have together.
pub const SPACE: usize = 256;
/// The longest option: five bits of its header count four bytes each.
pub const FIELD_BYTES_MAX: usize = 124;
/// Bytes of options that a header can have: six bits count four bytes each.
pub const OPTIONS_MAX: usize = 252;

/// The options of one packet. See the module for its two forms.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Tlv {
    /// Control half: a bit for each field that the packet has. `dpif`: how many bytes of options.
    pub present: u64,
    /// Control half: the fields, each at its place; zero where it is absent. `dpif`: the options.
    pub data: [u8; SPACE],
}

impl fmt::Debug for Tlv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let used = SPACE - self.data.iter().rev().take_while(|b| **b == 0).count();
        write!(f, "Tlv {{ present: {:#x}, data: {:02x?} }}", self.present, &self.data[..used])
    }
}

impl Tlv {
    /// A packet without options.
    pub const NONE: Tlv = Tlv { present: 0, data: [0; SPACE] };
}

/// The value of a field: so many bytes as it has.
#[derive(Clone, Copy)]
pub struct TlvValue {
    bytes: [u8; FIELD_BYTES_MAX],
    len: usize,
}

impl TlvValue {
    /// The low `len` bytes of a value; what it is too short for is zero.
    pub fn of_len(value: &[u8], len: usize) -> TlvValue {
        let len = len.min(FIELD_BYTES_MAX);
        let mut bytes = [0; FIELD_BYTES_MAX];
        for (to, from) in bytes[..len].iter_mut().rev().zip(value.iter().rev()) {
            *to = *from;
        }
        TlvValue { bytes, len }
    }

    /// Every bit of `len` bytes.
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

/// The bytes without the zeros before the first that is not.
pub fn significant(bytes: &[u8]) -> &[u8] {
    let zeros = bytes.iter().take_while(|b| **b == 0).count();
    &bytes[zeros..]
}
