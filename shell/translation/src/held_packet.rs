//! A packet that waits for its next hop.

use units::Millis;
use xlate::Held;

/// See the module.
pub struct HeldPacket {
    /// What is to be done with it.
    pub held: Held,
    /// Its bytes.
    pub packet: Vec<u8>,
    /// Since when it waits.
    pub(crate) since: Millis,
}
