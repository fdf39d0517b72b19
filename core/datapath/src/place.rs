//! Where a packet was dropped.

/// The port where a packet was dropped, by its datapath port number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// The packet was received by this port.
    In(u32),
    /// The packet was to be sent by this port.
    Out(u32),
}

impl Place {
    /// The port.
    pub fn port(self) -> u32 {
        match self {
            Place::In(port) | Place::Out(port) => port,
        }
    }
}
