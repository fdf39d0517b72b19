//! OpenFlow connections of one bridge: its management and snoop sockets, and its controllers.
//!
//! `session` is one connection without its socket: hello, echo, probes, what the peer wants to hear. `conn` adds the
//! socket, `manager` owns them all. None of them knows what a flow table is: requests go to the caller, who puts the
//! replies into the session that they came from.

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
