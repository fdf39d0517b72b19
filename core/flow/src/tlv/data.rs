//! The options of one packet.

use super::bounds::SPACE;
use std::fmt;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The options of one packet. See the module [`tlv`](super) for its two forms.
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
