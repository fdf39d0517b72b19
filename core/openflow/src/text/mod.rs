//! The text syntax of ovs-ofctl(8) over the types of this crate: actions, flows, statistics, in and out.
//!
//! The text is what scripts compare, so it is fixed byte for byte, error messages included. Parsers take any text,
//! return an error that names what is wrong, and nest no deeper than [`DEPTH_MAX`].

mod action_in;
mod action_out;
mod arguments;
mod ct_in;
mod flow_in;
mod flow_out;
mod learn_in;
mod learn_out;

pub use action_in::parse_actions;
pub use action_out::{action_text, actions_text};
pub use flow_in::{FlowText, parse_flow, parse_flow_mod};
pub use flow_out::{flow_mod_text, flow_stats_text};

pub use flow::text::{NoNames, PortNames, TextError};

/// How deep actions may stand in actions (`clone(clone(…))`).
pub const DEPTH_MAX: usize = 16;

#[cfg(test)]
mod tests;
