//! OpenFlow connections of one bridge: its management and snoop sockets, and its controllers.
//!
//! | file | what |
//! |---|---|
//! | `manager.rs` | the main loop's side: all connections, requests in turn |
//! | `session.rs`, `role.rs`, `asynchronous.rs` | a connection with what its peer has set |
//! | `packet_in.rs`, `status.rs` | messages to subscribers; state for the database |
//! | `link.rs`, `order.rs`, `backlog.rs` | between both sides: what they tell each other, and how much of it may wait |
//! | `batch.rs`, `request.rs` | requests on their way to the main loop |
//! | `thread.rs` | the sockets' side: the thread that serves all bridges |
//! | `sockets.rs`, `listener.rs`, `conn.rs` | the sockets of a bridge; one connection with its socket |
//! | `channel.rs` | a connection without its socket: bytes and messages, hello, echo |
//! | `packet_limit.rs`, `unsent.rs`, `trace.rs`, `target.rs` | limits, log, settings |
//!
//! None of them knows flow tables: requests go to the caller, which puts replies into the session of the request. The thread reads,
//! decodes, checks and converts flow mods, answers probes, encodes and writes, so a busy main loop delays none of these. In dummy mode
//! there is no thread: the main loop serves the sockets itself, in a fixed order.

mod asynchronous;
mod backlog;
mod batch;
mod channel;
mod conn;
mod link;
mod listener;
mod manager;
mod order;
mod packet_in;
mod packet_limit;
mod request;
mod role;
mod session;
mod sockets;
mod status;
mod target;
mod thread;
mod trace;
mod unsent;

#[cfg(test)]
mod tests;

pub use asynchronous::{AsyncKind, AsyncMasks};
pub use channel::error_body;
pub use manager::{ConnManager, Request};
pub use order::{ConnId, Parts};
pub use packet_in::PacketInEvent;
pub use request::{Bundled, BundledMessage, Content};
pub use session::{OpenBundle, Session};
pub use status::ControllerStatus;
pub use target::{ConnKind, ControllerTarget, ManagerConfig};
pub use thread::Serving;
