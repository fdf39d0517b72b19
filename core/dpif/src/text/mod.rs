//! Datapath flows and actions as text, in the syntax of ovs-dpctl(8): `dpctl/dump-flows` prints it, `dpctl/add-flow`
//! accepts it.
//!
//! Scripts compare this text byte for byte. Keys and masks are [`Flow`](flow::Flow)s whose `in_port` is a datapath
//! number. A `set` action has the same text as the part of a key that it changes, so both share their code.

mod action_parser;
mod action_printer;
mod error;
mod field;
mod key_parser;
mod key_printer;
mod names;
mod nsh;
mod scan;
mod set;
mod tunnel_header;
mod tunnel_key;
mod ufid;

pub use action_parser::parse_actions;
pub use action_printer::actions_text;
pub use error::TextError;
pub use key_parser::parse_key;
pub use key_printer::key_text;
pub use names::{DpPortNames, NoNames};
pub use ufid::ufid_text;

#[cfg(test)]
mod tests;
