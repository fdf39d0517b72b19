//! Rewrites: header edits of a megaflow, compiled for the header layout that the megaflow's packets have.
//!
//! A run of edits (`set`, push and pop of tags and labels) becomes one [`Rewrite`]: masked words at fixed offsets, at
//! most one move of the bytes in front of a pushed or popped header, and one update for each checksum. The part of a
//! checksum update that depends only on bytes that the megaflow matches is computed when the megaflow is created.
//!
//! **A rewrite checks what it relies on.** It compares the bytes that determine the layout (types, IP header length,
//! protocol) with those for which it was compiled. It refuses a packet that differs, is truncated, or lacks headroom.
//! The operations that a rewrite replaces follow it in the program and are executed one by one for such a packet. So
//! results never depend on the rewrite alone, and faults of parsing, masks or caches cannot corrupt packets.

mod apply;
mod checksum;
mod compile;
mod emit;
mod expected;
mod patch;
mod shared;
#[cfg(test)]
mod tests;

pub use apply::Rewrite;
pub(crate) use shared::SharedPrograms;
