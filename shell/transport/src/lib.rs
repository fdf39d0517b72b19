//! Byte streams over Unix sockets, TCP and TLS, active and passive, and a state machine for reconnecting.
//!
//! All functions are non-blocking, except those of [`BlockingStream`]. They do not depend on the protocol on top: OVSDB,
//! OpenFlow or that of the control socket. Each component owns its streams, so no locks are needed. Any thread may use
//! the crate.

mod accept_pause;
mod blocking;
mod listener;
mod outbox;
mod reconnect;
mod stream;
mod target;
pub mod tls;
mod unix_path;

pub use accept_pause::AcceptPause;
pub use blocking::BlockingStream;
pub use listener::{Listener, ListenerGroup};
pub use outbox::Outbox;
pub use reconnect::{Action, DisconnectReason, LogLine, Reconnect, State, Wording};
pub use stream::Stream;
pub use target::{Target, TargetError};

/// Default port of OVSDB (IANA: ovsdb).
pub const OVSDB_PORT: u16 = 6640;
/// Default port of OpenFlow (IANA: openflow).
pub const OPENFLOW_PORT: u16 = 6653;
