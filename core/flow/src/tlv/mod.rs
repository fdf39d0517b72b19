//! TLV options of a tunnel header (Geneve, RFC 8926 §3.5) and the fields `tun_metadata0` to `tun_metadata63`.
//!
//! A controller configures which option is mapped to which field ([`TlvTable`]). A flow stores options in one of two forms:
//!
//! * In the control half, each mapped field has slots in [`Tlv::data`], so that classifiers and masks handle it like other
//!   fields. The [`Layout`], which assigns the slots, is part of the flow.
//! * In `dpif`, a flow has the options as encoded in the header (*raw* options), and no layout: the datapath does not know
//!   their meaning.
//!
//! Values are bytes, the most significant first, because they may be wider than any number type. Shorter values are
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

pub use bounds::{ALL_FIELDS_BYTES_MAX, FIELD_BYTES_MAX, FIELDS, OPTIONS_MAX};
pub use data::Tlv;
pub use layout::Layout;
pub use matching::{TlvMatch, TlvMatchError};
pub use options::{OptionsError, TlvOption};
pub use table::{Mapping, TlvError, TlvTable};
pub use value::{TlvValue, significant};
