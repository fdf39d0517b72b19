//! Matches, fields and flows as text, in the syntax of ovs-ofctl(8) and ovs-fields(7).
//!
//! Scripts compare this text and the error messages byte for byte. Parsers accept any input: for invalid text they return an
//! error that names the fault, and their memory is bounded by the length of the text.

pub mod address;
mod error;
mod field_in;
mod field_out;
pub mod flags;
mod flow_in;
mod flow_out;
mod keys;
mod match_in;
mod match_out;
mod names;
mod numbers;
mod ports;
mod quotes;
mod tlv;

pub use error::TextError;
pub use flow_in::parse_exact_flow;
pub use flow_out::{exact_mask, flow_text};
pub use keys::{Protocol, next_key_value, protocol};
pub use names::{NameMap, NoNames, table_from_text, table_text};
pub use numbers::{hex, parse_integer};
pub use ports::{port_from_text, port_text};
pub use tlv::{bytes_text, parse_bytes};

#[cfg(test)]
mod tests;
