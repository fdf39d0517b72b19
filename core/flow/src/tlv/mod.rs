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
mod bounds;
mod data;
mod layout;
mod matching;
mod options;
mod table;
#[cfg(test)]
mod tests;
mod value;

pub use bounds::{FIELD_BYTES_MAX, FIELDS, OPTIONS_MAX, SPACE};
pub use data::Tlv;
pub use layout::Layout;
pub use matching::{TlvMatch, TlvMatchError};
pub use options::{OptionsError, TlvOption};
pub use table::{Mapping, TlvError, TlvTable};
pub use value::{TlvValue, significant};
