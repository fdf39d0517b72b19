//! Connection tracking for the `ct` action.
//!
//! ```text
//! packet_fields.rs     reads a packet for the general path: its key, and the fields that change the connection's state
//! packet_words.rs      reads a packet for the fast path
//! checks.rs            counts of verified checksums
//! key.rs               both endpoints of a connection, and its zone; both directions have the same hash
//! protocol.rs          protocol state of a connection; tcp.rs: state of TCP, with sequence numbers; update.rs: result of the check of a packet
//! timeout.rs           time after which a connection without packets expires
//! record.rs            a connection in memory: keys, mark, label, protocol state; slab.rs: storage of records
//! model.rs             loom models of a record; atomic.rs: the atomics that they replace
//! index.rs             hash table: from the hash of a key to record numbers
//! table.rs             all connections: records and index; numbers.rs: unused slots of a slab
//! limits.rs            maximum number of connections, in total and per zone
//! tracker.rs           `Conntrack`: tracks one packet on the general path
//! batched.rs           tracks a batch in three steps
//! established.rs       the fast path for packets of existing connections
//! connection_cache.rs  a worker's cache of connections
//! begin.rs             begins a connection
//! nat.rs               chooses the translated addresses and ports of a connection, and computes the edits of its packets
//! helper.rs            state of FTP and TFTP control connections, and of the connections that they announce
//! inspect.rs           inspects packets of control connections for announcements
//! sweep.rs             connection sweep: removes expired connections; eviction when the table is full
//! memory_request.rs    request of a worker for memory, which the main loop then allocates in advance
//! control.rs           settings, and commands that flush connections
//! dump.rs              lists connections, and selects connections to flush; text.rs: their text form
//! ```
//!
//! # Invariants
//!
//! * **A packet of an existing connection takes no lock**, in either direction. Exceptions: a connection with
//!   a timeout policy (read lock of the policies), and a control connection (locks of the helpers). A packet
//!   that begins or ends a connection holds the lock of one shard at a time.
//! * A connection has one record, and one index entry for each different hash of its two keys: two entries if it is translated, otherwise
//!   one. No two connections have the same reply key, if one of them is translated.
//! * A connection counts towards the total limit and its zone's limit until it is removed.
//! * Look-ups and dumps do not find an expired connection, but it counts towards the limits until the connection sweep removes it.
//! * The hash has a random key, so senders of packets cannot choose the bucket of their connections.

mod atomic;
mod batched;
mod begin;
mod checks;
mod connection_cache;
mod control;
mod dump;
mod established;
mod helper;
mod index;
mod inspect;
mod key;
mod limits;
mod memory_request;
mod nat;
mod numbers;
mod packet_fields;
mod packet_words;
mod protocol;
mod record;
mod slab;
mod sweep;
mod table;
mod tcp;
mod text;
mod timeout;
mod tracker;
mod update;

pub use batched::ReadPacket;
pub use checks::ChecksumCounts;
pub use connection_cache::ConnectionCache;
pub use dump::{ConnectionSnapshot, Filter, TupleFilter};
pub use established::PreparedAction;
pub use helper::{ControlPacket, ExpectedConnection, Helper, InspectionResult, TextEdit};
pub use index::SHARDS;
pub use key::{Key, Tuple};
pub use limits::ZoneLimit;
pub use nat::{Nat, Quoted, Translation, Transport};
pub use packet_fields::{Packet, UNVERIFIED, VERIFIED};
pub use packet_words::{Endpoints4, PacketEdit, PendingTranslation};
pub use record::Side;
pub use tcp::TcpState;
pub use timeout::TimeoutPolicy;
pub use tracker::{Action, Conntrack, EarlierLookUp, Metadata};

#[cfg(all(test, not(loom)))]
mod helper_tests;
#[cfg(all(test, loom))]
mod model;
#[cfg(all(test, not(loom)))]
mod tests;
