//! The tunnel options of a packet.

use super::bounds::ALL_FIELDS_BYTES_MAX;
use std::fmt;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The tunnel options of a packet. See the module [`tlv`](super) for the two forms.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Tlv {
    /// In the control half: a bit for each field that the packet has. In raw form: the length of the options in bytes.
    pub present: u64,
    /// In the control half: the slots of the fields; zero if the packet does not have the field. In raw form: the options.
    pub data: [u8; ALL_FIELDS_BYTES_MAX],
}

impl fmt::Debug for Tlv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let used = ALL_FIELDS_BYTES_MAX - self.data.iter().rev().take_while(|b| **b == 0).count();
        write!(f, "Tlv {{ present: {:#x}, data: {:02x?} }}", self.present, &self.data[..used])
    }
}

impl Tlv {
    /// A packet without options.
    pub const NONE: Tlv = Tlv { present: 0, data: [0; ALL_FIELDS_BYTES_MAX] };
}
