//! Connectivity fault management (IEEE 802.1ag): the maintenance points of a network periodically send continuity check
//! messages (CCM) to each other. Other messages of the standard (loopback, link trace) are not supported.
//!
//! A session belongs to a port and is one maintenance point. Its inputs are the time, the frames received for it and
//! the number of packets that the port has received; its outputs are the frames to send and the time of its next call.
//! Open vSwitch's additions to the standard are included: an extended mode with 64-bit identifiers, any interval and an
//! operational state, and a demand mode, in which traffic is a sign of life.
//!
//! | file | content |
//! |---|---|
//! | `message.rs` | the continuity check message: parsing and serialization |
//! | `frame.rs` | encapsulation of messages in Ethernet, and the filter for frames of a session |
//! | `settings.rs` | the configuration of a session, and its intervals |
//! | `session.rs` | state and timers of a session: when to send, and which remote points are lost |
//! | `receive.rs` | processing of a received message |
//! | `fault.rs` | reasons of faults |
//! | `event.rs` | events for the log |
//! | `text.rs` | `cfm/show`, and the columns of the database |

mod event;
mod fault;
mod frame;
mod message;
mod receive;
mod session;
mod settings;
mod text;

#[cfg(test)]
mod tests;

pub use event::Event;
pub use fault::Faults;
pub use frame::{ETHERTYPE, Filter};
pub use message::{Message, Refusal};
pub use session::Session;
pub use settings::{Settings, Vlan, WrongId};
pub use text::Status;
