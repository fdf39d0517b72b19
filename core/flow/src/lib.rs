//! Flows (the fields of a packet), masks, matches, their text, extraction from packets, and the table of match fields.

pub mod compose;
pub mod extract;
pub mod field;
pub mod flow;
pub mod matching;
mod normalize;
pub mod nsh;
mod packed;
pub mod text;
pub mod tlv;
mod words;

pub use field::{FieldId, FieldInfo, Subfield};
pub use flow::{FLOW_WORDS, Flow, Mac, Tunnel, VLAN_CFI, Vlan};
pub use matching::{Match, MiniMatch};
pub use nsh::Nsh;
pub use packed::PackedFlow;
pub use tlv::{Tlv, TlvTable};
pub use words::for_each_set_word;
