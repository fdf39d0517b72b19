//! The megaflow table, in which workers look packets up.
//!
//! All workers share one table. Readers need no lock: they load the megaflows of the packet's ingress port (its subtables,
//! ranked by hits), probe the hash table of each subtable, and compare the packet with the candidate's record in a
//! [`sync::arena`]. One publisher, which its owner protects by a lock, inserts and removes megaflows.
//!
//! * [`PortMegaflows`]: all megaflows of one ingress port. It has the depth to which packets must be parsed for them
//!   ([`Depth`]).
//! * A **subtable** contains the megaflows of one mask.
//! * The number of masks of a port is **limited**. When the limit is reached, a megaflow with a new mask gets an exact
//!   mask instead. This needs more megaflows, but keeps every look-up short, whatever the traffic.
//!
//! Megaflows may overlap as long as the actions of each of them are right for all packets that it matches. So a reader may
//! also see an index that was reused, or a hash table that is being changed: it compares the packet with the record
//! itself, and a record that matches is right.

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
    ALL_WORDS, BATCH, Column, Depth, EXT_WORDS, Ext, Key, KeyMask, Options, Rest, RestWord, Rests, Words,
};
pub use lookup::{NONE, bits, matching_candidates};
pub use pattern::{AddressMatch, Pattern};
pub use publisher::{InsertResult, MegaflowPublisher};
pub use subtable::{Probes, Subtable};
pub use table::{Megaflow, MegaflowTable, MegaflowsByPort, PortMegaflows};

#[cfg(test)]
mod tests;
