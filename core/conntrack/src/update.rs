//! The result of checking a packet against the state of its connection.

use crate::timeout::Timeout;

/// The result of checking a packet against the state of its connection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Update {
    /// The packet does not belong to the connection.
    Invalid,
    /// The connection has been answered. Carries the timeout until the next packet, if it changes.
    Valid(Option<Timeout>),
    /// The connection has no answer yet.
    New(Timeout),
    /// The connection is over; the packet starts another one between the same ends.
    Restart,
}
