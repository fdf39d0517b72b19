//! OpenFlow connections of each bridge: its management and snoop sockets, and its controllers. One thread serves the sockets of all bridges.
//!
//! | file | what |
//! |---|---|
//! | `connections.rs` | in the main loop: all connections of a bridge; serves their requests in turn |
//! | `session.rs`, `role.rs`, `asynchronous.rs` | in the main loop: one connection, its role, subscriptions and bundles |
//! | `async_messages.rs`, `status.rs` | messages to subscribers; state of controllers for the database |
//! | `socket_access.rs`, `command.rs`, `waiting_bytes.rs` | commands to the sockets, events from them; limits on waiting bytes |
//! | `batch.rs`, `request_content.rs` | requests on their way to the main loop |
//! | `thread/` | the thread that serves the sockets of all bridges while there is much work; how it and the main loop share them |
//! | `sockets.rs`, `listener.rs`, `conn.rs` | on the thread that owns them: the sockets of a bridge; one connection with its socket |
//! | `protocol.rs` | protocol state of one connection, without its socket: framing, hello, version negotiation, echo |
//! | `packet_limit.rs`, `unsent.rs`, `message_log.rs`, `conn_settings.rs` | limit on packet-ins, limit on unread output, log, settings |
//!
//! This crate does not use flow tables: the caller executes requests and puts replies into the session of the request. Whichever
//! thread owns the sockets reads, decodes, checks and converts flow mods, answers echo requests, encodes and writes. If the main loop is busy,
//! that is the thread `ofconn`, so a busy main loop delays none of these. In dummy mode there is no such thread: the main loop always serves
//! the sockets itself, in a fixed order.

mod async_messages;
mod asynchronous;
mod batch;
mod command;
mod conn;
mod conn_settings;
mod connections;
mod listener;
mod long_reply;
mod message_log;
mod packet_limit;
mod protocol;
mod request_content;
mod role;
mod session;
mod socket_access;
mod sockets;
mod status;
mod thread;
mod unsent;
mod waiting_bytes;

#[cfg(test)]
mod tests;

pub use async_messages::PacketInEvent;
pub use asynchronous::{AsyncKind, AsyncMasks};
pub use command::{ConnId, Parts};
pub use conn_settings::{ConnKind, ConnSettings, ConnectionsConfig};
pub use connections::{Connections, Request};
pub use protocol::error_body;
pub use request_content::{BundledMessage, BundledRequest, Content};
pub use session::{OpenBundle, Session};
pub use status::ControllerStatus;
pub use thread::{OwnedSockets, SocketThread};
