//! Actions and instructions on the wire.

mod context;
mod decode;
mod encode;
mod headers;
mod instruction;
mod learn;
mod nicira;
mod nicira_encode;
mod parts;
mod subfield;

pub(crate) use context::Context;
pub(crate) use decode::actions;
pub(crate) use encode::{put_actions, put_flow_actions};
pub(crate) use instruction::{instructions, put_instructions};
