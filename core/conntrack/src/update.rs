//! What a packet changes about its connection.

use crate::timeout::Timeout;

/// What a packet is to its connection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Update {
    /// Not one of it.
    Invalid,
    /// One of a connection that has an answer; how long to wait for the next, if that changes.
    Valid(Option<Timeout>),
    /// One of a connection that has no answer yet.
    New(Timeout),
    /// The connection is over, and this is the first packet of another one between the same ends.
    Again,
}
