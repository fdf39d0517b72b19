//! A packet that waits for its next hop.

use units::Millis;
use xlate::Held;

/// A held packet.
pub struct HeldPacket {
    /// What to do with the packet when the next hop is known.
    pub held: Held,
    /// The packet's bytes.
    pub packet: Vec<u8>,
    /// When the packet was held.
    pub(crate) since: Millis,
}
