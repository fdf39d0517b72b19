//! Connections and what state they are in, for the `ct` action.
//!
//! ```text
//! subject.rs     what a packet says: whose connection it is of, and what it means to it
//! key.rs         a connection's two ends in a zone; the same in both directions once it is `Ordered`
//! protocol.rs    how far a connection has got; tcp.rs: for TCP, where sequence numbers count
//! timeout.rs     how long it stays without a packet
//! connection.rs  a connection: key, mark, label, protocol's state
//! shard.rs       a hash table of some of the connections; siphash.rs: which, and where in it
//! limits.rs      how many there may be, of all zones and of each
//! tracker.rs     `Conntrack`: a packet is tracked; what is too old goes
//! dump.rs        connections for those who look at them, and which of them are to be forgotten; text.rs: as text
//! ```
//!
//! # Invariants
//!
//! * **A packet takes one lock**, that of the shard which holds its connection, whichever direction it goes in. Who does
//!   not track takes none.
//! * A connection is in one shard once. It counts towards the total limit, and its zone's, until it is removed.
//! * A connection whose time is over is not there for anybody, though it still counts until it is swept.
//! * Where connections lie in memory is secret to whoever sends packets: the hash has a random key.

mod connection;
mod dump;
mod key;
mod limits;
mod protocol;
mod shard;
mod subject;
mod tcp;
mod text;
mod timeout;
mod tracker;

pub use dump::{Entry, Filter, TupleFilter};
pub use key::{Key, Tuple};
pub use limits::ZoneLimit;
pub use tcp::TcpState;
pub use tracker::{Action, Conntrack, Metadata, Packet, SHARDS};

#[cfg(test)]
mod tests;
