//! Connection tracking for the `ct` action.
//!
//! ```text
//! packet_fields.rs  reads a packet: the key of its connection, and the fields that change the connection's state; checks.rs: which
//!              checksums were verified
//! key.rs       a connection's two ends in a zone; both directions have the same hash
//! protocol.rs  states of a connection; tcp.rs: those of TCP, with sequence numbers; update.rs: what a packet changes
//! timeout.rs   time until a connection without packets expires
//! record.rs    a connection in memory: keys, mark, label, the protocol's state; slab.rs: storage of records; model.rs: loom models of a
//!              record, with the atomics of atomic.rs
//! index.rs     from a hash to the numbers of records; table.rs: all connections, found by the keys of both directions; numbers.rs: which
//!              slots of a slab are unused
//! limits.rs    how many connections there may be, in total and by zone
//! helper.rs    state of FTP and TFTP control connections, and of the connections that they announce
//! inspect.rs   packets of control connections are inspected for announcements
//! packet_words.rs  reads a packet for the fast path; established.rs: the fast path for packets of known connections
//! nat.rs       chooses the translated addresses and ports of a connection, and computes the edits of its packets
//! tracker.rs   `Conntrack`: tracks one packet; batched.rs: tracks a batch, step by step; recent.rs: a worker's cache of connections;
//!              begin.rs: begins a connection
//! sweep.rs     removes expired connections, and evicts when the table is full; control.rs: settings, and commands that flush
//! dump.rs      lists connections, and selects those to flush; text.rs: as text
//! ```
//!
//! # Invariants
//!
//! * **A packet of a known connection takes no lock**, in either direction. A packet that begins or ends a
//!   connection holds the lock of one shard at a time.
//! * A connection has one record, and an entry in the index for each different hash of its keys: one, or two
//!   if it is translated. No two connections have the same reply key, if one of them is translated.
//! * A connection counts towards the total limit, and its zone's, until it is removed.
//! * An expired connection is not found by look-ups and dumps, but counts towards the limits until it is
//!   swept.
//! * The hash has a random key, so senders of packets cannot know where in the table a connection is.

mod atomic;
mod batched;
mod begin;
mod checks;
mod control;
mod dump;
mod established;
mod helper;
mod index;
mod inspect;
mod key;
mod limits;
mod nat;
mod numbers;
mod packet_fields;
mod packet_words;
mod protocol;
mod recent;
mod record;
mod slab;
mod sweep;
mod table;
mod tcp;
mod text;
mod timeout;
mod tracker;
mod update;

pub use batched::Read;
pub use checks::Checks;
pub use dump::{Entry, Filter, TupleFilter};
pub use established::Plan;
pub use helper::{Control, Edit, Expected, Helper, Inspected};
pub use index::SHARDS;
pub use key::{Key, Tuple};
pub use limits::ZoneLimit;
pub use nat::{Nat, Quoted, Translation, Transport};
pub use packet_fields::{Packet, UNVERIFIED, VERIFIED};
pub use packet_words::{Ends, Translated, Written};
pub use recent::Recent;
pub use record::Side;
pub use tcp::TcpState;
pub use timeout::TimeoutPolicy;
pub use tracker::{Action, Conntrack, Known, Metadata};

#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;
