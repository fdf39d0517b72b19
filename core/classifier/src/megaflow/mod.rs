//! The megaflow table, in which workers look packets up.
//!
//! One table for all workers. Readers take no lock: they load the context of their port (subtables ranked by hits),
//! probe each subtable's hash table of atomic words, and verify against records of an [`sync::arena`]. One publisher
//! (behind its owner's lock) inserts and removes.
//!
//! * A **context** belongs to an ingress port. It has the depth to which packets must be parsed for its megaflows
//!   ([`Depth`]).
//! * A **subtable** holds the megaflows of one mask.
//! * The number of masks in a context is **bounded**; a translation whose mask would exceed the bound gets an exact mask
//!   instead, which costs more megaflows but keeps every look-up short, whatever the traffic.
//!
//! Megaflows may overlap as long as all of them agree with the control half: then each of them is right. For the same
//! reason a reader may find a reused index or a table that is being changed: it verifies each candidate against the
//! record itself, and a record that matches is right.

pub mod convert;
pub mod key;
mod lookup;
mod naive;
mod pattern;
pub mod publisher;
pub mod subtable;
pub mod table;

pub use convert::{NSH_WORDS, TUNNEL_AT, TUNNEL_WORDS};
pub use key::{
    ALL_WORDS, BATCH, Column, Depth, EXT_WORDS, Ext, ExtWord, Key, KeyMask, Options, Rest, Rests, Words,
};
pub use lookup::{NONE, belonging, bits};
pub use pattern::{Brief, Pattern};
pub use publisher::{Found, MegaflowPublisher};
pub use subtable::{Probes, Subtable};
pub use table::{Context, Contexts, Megaflow, MegaflowTable};

#[cfg(test)]
mod tests;
