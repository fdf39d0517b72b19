//! Reassembly of IPv4 and IPv6 fragments, for the `ct` action.
//!
//! A fragment waits here until all fragments of its datagram have arrived. Then the caller gets all fragments in order, tracks the
//! reassembled datagram once, and forwards each fragment. `T` is what the caller stores with each fragment.
//!
//! ```text
//! header.rs    reads the headers of a fragment
//! datagram.rs  the fragments of one datagram: order, overlaps, completeness
//! chain.rs     slots with stable numbers, and linked lists of slots
//! shares.rs    number of fragments per port and source; the datagram to evict when the table is full
//! key.rs       identifies the datagram of a fragment
//! table.rs     all incomplete datagrams
//! settings.rs  settings and counters
//! reassembly.rs  `Reassembly`: the table that threads share
//! assemble.rs  writes a datagram from its fragments
//! text.rs      output of `dpctl/ipf-get-status -m`
//! ```
//!
//! # Invariants
//!
//! * Each byte of a datagram comes from one fragment. A fragment that overlaps another one is refused (RFC 5722 §3,
//!   RFC 8200 §4.5).
//! * At most [`Reassembly::max_fragments`] fragments wait, with [`BYTES_PER_FRAGMENT`] bytes of memory each on average.
//! * The time per fragment does not depend on the number of waiting fragments: look-ups use a keyed hash, and lists are ordered by age.
//! * When the table is full, the port with the most fragments loses a datagram: the oldest one of the source that holds the most fragments,
//!   if that source holds at least 64; otherwise the oldest one of the port. So a flood from one source or port does not affect others.

mod assemble;
mod chain;
mod datagram;
mod header;
mod key;
mod reassembly;
mod settings;
mod shares;
mod table;
mod text;

pub use datagram::{Datagram, Part};
pub use header::{Fragment, PacketKind, may_be_fragment, read};
pub use key::Origin;
pub use reassembly::{Oversize, Reassembly};
pub use settings::{Counts, Family, FamilyStatus, Status};
pub use table::{AddResult, BYTES_PER_FRAGMENT, Removal, Removed};
pub use text::Entry;

#[cfg(test)]
mod tests;
