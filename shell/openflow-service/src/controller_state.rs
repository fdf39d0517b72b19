//! State of the connections to a bridge's controllers, and its consequences.

use units::Millis;

/// State of the connections to controllers.
#[derive(Clone, Copy, Debug, Default)]
pub struct ControllerState {
    /// At least one controller is connected.
    pub alive: bool,
    /// Since when no controller is connected.
    pub alone_since: Option<Millis>,
    /// The standalone fallback flow is installed: the bridge forwards without a controller.
    pub fallback: bool,
    /// A connection subscribed to packets that match no flow.
    pub packet_in_on_miss: bool,
}
