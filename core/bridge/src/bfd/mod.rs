//! Bidirectional forwarding detection (RFC 5880, on one hop by UDP: RFC 5881): does the other end of a link hear us, and does
//! it want our packets?
//!
//! A session belongs to a port. It is told the time, the frames that come for it and how many packets the port has received;
//! it returns the frames to send and when it wants to be looked at next. What the RFC leaves out and Open vSwitch has is
//! here, too: a slower pace without traffic, traffic as a sign of life, a count of changes.
//!
//! There is no authentication, no echo and no demand mode.
//!
//! | file | what |
//! |---|---|
//! | `message.rs` | the control packet: from bytes, to bytes |
//! | `frame.rs` | UDP, IPv4 and Ethernet around it |
//! | `settings.rs` | what a row of the database asks |
//! | `session.rs` | the state and its clocks: when to send what, when the other end is lost |
//! | `receive.rs` | what a message does |
//! | `decay.rs` | the slower pace |
//! | `forwarding.rs` | may packets be sent? |
//! | `event.rs` | what the log is told |
//! | `text.rs` | `bfd/show` and the column `bfd_status` |

mod decay;
mod event;
mod forwarding;
mod frame;
mod message;
mod random;
mod receive;
mod session;
mod settings;
mod text;

#[cfg(test)]
mod tests;

pub use event::{Event, Level};
pub use frame::{TTL, UDP_PORT, payload};
pub use message::{Diagnostic, Flags, MESSAGE_LEN, Message, Refusal, State};
pub use session::{Identity, Session};
pub use settings::{DEFAULT_DESTINATION, DEFAULT_SOURCE, Filter, Settings};
