//! State of the connections to a bridge's controllers, and its consequences.

use crate::in_band::InBand;
use units::Millis;

/// State of the connections to controllers.
#[derive(Clone, Debug, Default)]
pub struct ControllerState {
    /// At least one controller is connected.
    pub alive: bool,
    /// Since when no controller is connected.
    pub alone_since: Option<Millis>,
    /// The standalone fallback flow is installed: the bridge forwards without a controller.
    pub fallback: bool,
    /// A connection subscribed to packets that match no flow.
    pub packet_in_on_miss: bool,
    /// The flows by which controllers are reached through the bridge.
    pub in_band: InBand,
}
