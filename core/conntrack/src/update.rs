use crate::timeout::Timeout;

/// The result of checking a packet against the state of its connection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Update {
    /// The packet does not belong to the connection.
    Invalid,
    /// The packet is valid, and the connection has packets in both directions. Carries the new timeout; `None`: the expiry time does not
    /// change.
    Valid(Option<Timeout>),
    /// The packet is valid, and the connection has no reply yet. Carries the new timeout.
    New(Timeout),
    /// The connection is closed; the packet begins another connection with the same key.
    Restart,
}
