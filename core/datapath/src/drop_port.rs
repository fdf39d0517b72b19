//! The port at which a packet was dropped, with the direction.

/// The datapath port number of the port at which a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DropPort {
    /// The packet was received by this port.
    In(u32),
    /// The packet was dropped instead of being sent by this port.
    Out(u32),
}

impl DropPort {
    /// The port number.
    pub fn port(self) -> u32 {
        match self {
            DropPort::In(port) | DropPort::Out(port) => port,
        }
    }
}
