//! Connection tracking for the `ct` action.
//!
//! ```text
//! subject.rs   what a packet's headers say: the key of its connection, and what it changes there
//! key.rs       a connection's two ends in a zone; both directions have the same hash
//! protocol.rs  the protocol state of a connection; tcp.rs: for TCP, with sequence numbers
//! timeout.rs   when a connection expires
//! record.rs    a connection in memory: keys, mark, label, protocol state; slab.rs: memory of records
//! index.rs     finds records by hash; table.rs: all connections, found by the keys of both directions
//! limits.rs    limits of connections, in total and by zone
//! helper.rs    control connections of FTP and TFTP, and the connections that they announce
//! hear.rs      passes packets of control connections to their helpers
//! nat.rs       chooses addresses and ports of a translated connection, and the edits of its packets
//! tracker.rs   `Conntrack`: tracks packets; begin.rs: begins connections
//! sweep.rs     removes expired and dispensable connections; control.rs: settings, dumps and flushes
//! dump.rs      connections in dumps, and filters; text.rs: as text
//! ```
//!
//! # Invariants
//!
//! * **A packet of a known connection takes no lock**, in either direction. A packet that begins or ends a
//! connection holds the lock of one shard at a time.
//! * A connection has one record, and an entry in the index for each different hash of its keys: one, or two
//! if it is translated. No two connections have the same reply key, if one of them is translated.
//! * A connection counts towards the total limit, and its zone's, until it is removed.
//! * An expired connection is not found by look-ups and dumps, but counts towards the limits until it is
//! swept.
//! * The hash has a random key, so senders of packets cannot know where in the table a connection is.

mod begin;
mod control;
mod dump;
mod hear;
mod helper;
mod index;
mod key;
mod limits;
mod nat;
mod protocol;
mod record;
mod slab;
mod subject;
mod sweep;
mod table;
mod tcp;
mod text;
mod timeout;
mod tracker;

pub use dump::{Entry, Filter, TupleFilter};
pub use helper::{Control, Edit, Expected, Heard, Helper};
pub use index::SHARDS;
pub use key::{Key, Tuple};
pub use limits::ZoneLimit;
pub use nat::{Nat, Quoted, Translation, Transport};
pub use record::Side;
pub use tcp::TcpState;
pub use timeout::TimeoutPolicy;
pub use tracker::{Action, Conntrack, Known, Metadata, Packet, Read};

#[cfg(test)]
mod tests;
