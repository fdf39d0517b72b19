//! TLV options of a tunnel header (Geneve, RFC 8926 §3.5) and the fields `tun_metadata0` to `tun_metadata63`.
//!
//! A controller tells the switch which option is which field ([`TlvTable`]). In the control half each field has a
//! place among the bytes of [`Tlv`], so that classifiers and masks handle it like other fields; the [`Layout`] with
//! these places is part of the flow. In `dpif` a flow has the options as bytes of the header, and no layout: the
//! datapath does not know their meaning.
//!
//! Values are bytes, the most significant first, because they may be wider than any number type; shorter values are
//! padded with leading zeros.

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
/// Total bytes of all fields of a packet.
pub const SPACE: usize = 256;
/// Maximum bytes of an option: five bits of its header count units of four bytes.
pub const FIELD_BYTES_MAX: usize = 124;
/// Maximum bytes of all options in a header: six bits count units of four bytes.
pub const OPTIONS_MAX: usize = 252;

/// The options of one packet, in one of the two forms of the module documentation.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Tlv {
    /// Control half: a bit for each field that the packet has. `dpif`: length of the options in bytes.
    pub present: u64,
    /// Control half: the fields at their places; zero where absent. `dpif`: the options.
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

/// The value of a field, with the field's length.
#[derive(Clone, Copy)]
pub struct TlvValue {
    bytes: [u8; FIELD_BYTES_MAX],
    len: usize,
}

impl TlvValue {
    /// The low `len` bytes of a value, padded with zeros.
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
