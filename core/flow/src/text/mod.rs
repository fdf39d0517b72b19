//! Matches, fields and flows as text, in the syntax of ovs-ofctl(8) and ovs-fields(7).
//!
//! Scripts compare this text, including error messages, so both are fixed byte for byte. Parsers accept any text:
//! they return an error that names the fault, and use no more memory than the text itself.

pub mod address;
mod field_in;
mod field_out;
pub mod flags;
mod flow_in;
mod flow_out;
mod keys;
mod match_in;
mod match_out;
mod names;
mod ports;
mod quotes;
mod tlv;

pub use field_in::parse_integer;
pub use flow_in::parse_exact_flow;
pub use flow_out::{exact_mask, flow_text};
pub use keys::{Protocol, next_key_value, protocol};
pub use names::{NameMap, NoNames, table_from_text, table_text};
pub use ports::{port_from_text, port_text};
pub use tlv::{bytes_text, parse_bytes};

use thiserror::Error;

/// Why a text is invalid. Scripts compare these texts.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct TextError(pub String);

impl TextError {
    pub(crate) fn new(message: impl Into<String>) -> TextError {
        TextError(message.into())
    }
}

/// `0x` and digits, but a bare `0` for zero.
pub(crate) fn hex(value: u128) -> String {
    if value == 0 { "0".to_owned() } else { format!("{value:#x}") }
}

#[cfg(test)]
mod tests;
