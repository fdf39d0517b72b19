//! Link layer discovery (LLDP, IEEE 802.1AB): a port announces its chassis and port identifiers to its
//! neighbours, and stores what they announce. With auto-attach (draft-unbehagen-lldp-spb) the switch also
//! asks a server in the network to carry services (numbers of 24 bits, I-SIDs) in VLANs.
//!
//! A session belongs to a port. Its inputs are the time, the announced texts and services, and the frames received for it; its outputs are the
//! frames to send and the time of its next call.
//!
//! | file | content |
//! |---|---|
//! | `tlv.rs` | the elements of a message: type, length, value |
//! | `message.rs` | a message: parsing and serialization |
//! | `auto_attach.rs` | the elements of auto-attach |
//! | `neighbours.rs` | the neighbours of a port, with their lifetimes |
//! | `session.rs` | state and timers of a session |
//! | `event.rs` | events for the log |
//! | `text.rs` | the replies of `autoattach/*` and `lldp/show` |

pub mod auto_attach;
mod event;
mod message;
mod neighbours;
mod session;
mod text;
mod tlv;

#[cfg(test)]
mod tests;

pub use event::Event;
pub use message::{Id, Message, Refusal};
pub use session::{Announcement, Session};
