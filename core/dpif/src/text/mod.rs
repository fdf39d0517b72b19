//! Datapath flows and actions as text, in the syntax of ovs-dpctl(8), as `dpctl/dump-flows` prints and
//! `dpctl/add-flow` accepts it.
//!
//! Scripts compare this text byte for byte. Keys and masks are [`Flow`](flow::Flow)s whose `in_port` is a datapath
//! number. A `set` action is written and parsed as the part of a key that it changes, so both share their code.

mod action_in;
mod action_out;
mod field;
mod key_in;
mod key_out;
mod nsh;
mod scan;
mod set;
mod tunnel_header;
mod tunnel_key;

pub use action_in::parse_actions;
pub use action_out::actions_text;
pub use key_in::parse_key;
pub use key_out::key_text;

use thiserror::Error;
use units::{PortNo, Ufid};

/// The names of a datapath's ports.
pub trait DpPortNames {
    /// The name of a port to print; `None` prints the number.
    fn name(&self, port: PortNo) -> Option<String>;
    /// The port with this name.
    fn number(&self, name: &str) -> Option<PortNo>;
}

/// Prints and accepts only numbers.
pub struct NoNames;

impl DpPortNames for NoNames {
    fn name(&self, _: PortNo) -> Option<String> {
        None
    }

    fn number(&self, _: &str) -> Option<PortNo> {
        None
    }
}

/// Why a text is not a flow or a list of actions.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TextError {
    /// This part cannot be parsed.
    #[error("syntax error at {0}")]
    Syntax(String),
    /// Lists are nested too deeply.
    #[error("too deeply nested")]
    Depth,
}

/// `ufid:` and the identifier, as verbose dumps print it.
pub fn ufid_text(ufid: Ufid) -> String {
    format!("ufid:{ufid}")
}

fn port_text(port: PortNo, names: &dyn DpPortNames) -> String {
    names.name(port).unwrap_or_else(|| port.0.to_string())
}

/// `0x` and digits, but a bare `0` for zero.
fn hex(value: u128) -> String {
    if value == 0 { "0".to_owned() } else { format!("{value:#x}") }
}

#[cfg(test)]
mod tests;
