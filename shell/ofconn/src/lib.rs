//! OpenFlow connections of one bridge: its management and snoop sockets, and its controllers.
//!
//! `session` is one connection without its socket: hello, echo, probes, subscriptions. `conn` adds the socket,
//! `manager` owns all connections. None of them knows flow tables: requests go to the caller, which puts replies into
//! the session of the request.

mod asynchronous;
mod conn;
mod listener;
mod manager;
mod packet_in;
mod packet_limit;
mod role;
mod session;
mod status;
mod target;
mod trace;
mod unsent;

#[cfg(test)]
mod tests;

pub use asynchronous::{AsyncKind, AsyncMasks};
pub use manager::{ConnId, ConnKind, ConnManager, ControllerTarget, ManagerConfig, Request};
pub use packet_in::PacketInEvent;
pub use session::{OpenBundle, Session, SessionState, error_body};
pub use status::ControllerStatus;
