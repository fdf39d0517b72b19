//! Whether a bridge's controllers are there, and what follows from it.

use units::Millis;

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub struct ControllerState {
    /// A controller is connected.
    pub alive: bool,
    /// No controller is connected since.
    pub alone_since: Option<Millis>,
    /// The standalone fall-back flow is in place: the bridge forwards although no controller said so.
    pub fallback: bool,
    /// A connection wants the packets that no flow matches.
    pub packet_in_on_miss: bool,
}
