//! The path of a socket, the side that creates it, and the reasons why it could not be opened.

use std::fmt;

/// Maximum length of a socket path in bytes: `sun_path` without its final zero.
pub const PATH_MAX: usize = 107;

/// Which side creates the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The guest creates the socket; the switch connects, and connects again when the guest has disconnected.
    Client,
    /// The switch creates the socket and the guest connects.
    Server,
}

/// Why [`Socket::open`](super::Socket::open) failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketError {
    /// DPDK is not initialized.
    NoEnvironment,
    /// The path is longer than [`PATH_MAX`].
    TooLong,
    /// The path is empty or contains a zero byte.
    Invalid,
    /// Another port uses this path.
    Taken,
    /// This step failed.
    Refused(&'static str),
}

impl fmt::Display for SocketError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SocketError::NoEnvironment => f.write_str("DPDK is not initialized"),
            SocketError::TooLong => write!(f, "the path is longer than {PATH_MAX} bytes"),
            SocketError::Invalid => f.write_str("the path is empty or has a zero byte"),
            SocketError::Taken => f.write_str("the path is in use by another port"),
            SocketError::Refused(step) => write!(f, "{step} failed"),
        }
    }
}

impl std::error::Error for SocketError {}
