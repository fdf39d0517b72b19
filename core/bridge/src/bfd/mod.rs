//! Bidirectional forwarding detection (RFC 5880; single hop over UDP: RFC 5881): detects whether the other end of a link
//! receives our packets and accepts packets from us.
//!
//! A session belongs to a port. Its inputs are the time, the frames received for it and the number of packets that the port has received; its outputs
//! are the frames to send and the time of its next call. Open vSwitch's additions to the RFC are included: a slower rate without traffic, traffic as
//! a sign of life, and a count of forwarding changes.
//!
//! There is no authentication, no echo function and no demand mode.
//!
//! | file | content |
//! |---|---|
//! | `message.rs` | the control packet: parsing and serialization |
//! | `frame.rs` | encapsulation of the control packet in UDP, IPv4 and Ethernet |
//! | `settings.rs` | the configuration of a session |
//! | `session.rs` | state and timers of a session: when to send, and when the other end is lost |
//! | `receive.rs` | processing of a received message |
//! | `decay.rs` | the slower rate without traffic |
//! | `forwarding.rs` | whether packets may be sent |
//! | `event.rs` | events for the log |
//! | `text.rs` | `bfd/show` and the column `bfd_status` |

mod decay;
mod event;
mod forwarding;
mod frame;
mod message;
mod receive;
mod session;
mod settings;
mod text;

#[cfg(test)]
mod tests;

pub use event::Event;
pub use frame::{TTL, UDP_PORT, payload};
pub use message::{Diagnostic, Flags, MESSAGE_LEN, Message, Refusal, State};
pub use session::{Identity, Session};
pub use settings::{DEFAULT_DESTINATION, DEFAULT_SOURCE, Filter, Settings};
