//! A packet that is held until the next hop of its tunnel is known.

use units::Millis;
use xlate::HeldOutput;

/// A held packet.
pub struct HeldPacket {
    /// The output that is done when the next hop is known.
    pub held: HeldOutput,
    /// The packet's bytes.
    pub packet: Vec<u8>,
    /// When the packet was held.
    pub(crate) since: Millis,
}
