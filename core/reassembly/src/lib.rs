//! Fragments of IPv4 and IPv6 datagrams, for the `ct` action.
//!
//! A fragment waits here until all of its datagram are there. Then the caller gets all fragments, in order, tracks the whole
//! datagram once, and lets each fragment go on as it came. What the caller stores per fragment is its own affair (`T`).
//!
//! ```text
//! header.rs    what the headers of a packet say: which part of which datagram it is
//! datagram.rs  the fragments of one datagram: order, overlaps, what is missing
//! chain.rs     places with stable numbers, and lists through them
//! shares.rs    how many fragments each port and each source holds; whose datagram goes first when there is no room
//! key.rs       which datagram a fragment belongs to
//! table.rs     all datagrams that wait
//! settings.rs  switches, limits, counters
//! reassembly.rs  `Reassembly`: what threads share
//! whole.rs     a whole datagram is made of its fragments
//! text.rs      datagrams as `dpctl/ipf-get-status -m` prints them
//! ```
//!
//! # Invariants
//!
//! * Bytes of a datagram come from one fragment. A fragment that overlaps another one is refused (RFC 5722 §3, RFC 8200 §4.5).
//! * At most [`Reassembly::max_fragments`] fragments wait, with [`BYTES_PER_FRAGMENT`] bytes of memory each on average.
//! * The time that one fragment takes does not depend on how many wait: look-ups are by a keyed hash, lists by age.
//! * When there is no room, the port with the most fragments loses its oldest datagram; if one source of this port holds more
//!   than the largest datagram has, that source's oldest. So a source or a port that floods does not stop the others.

mod chain;
mod datagram;
mod header;
mod key;
mod reassembly;
mod settings;
mod shares;
mod table;
mod text;
mod whole;

pub use datagram::{Datagram, Part};
pub use header::{Content, Fragment, may_be_fragment, read};
pub use key::Origin;
pub use reassembly::{Oversize, Reassembly};
pub use settings::{Counts, Family, FamilyStatus, Status};
pub use table::{BYTES_PER_FRAGMENT, Gone, Removal, Verdict};
pub use text::Entry;

#[cfg(test)]
mod tests;
