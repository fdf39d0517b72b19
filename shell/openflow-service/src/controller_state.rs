//! Whether a bridge's controllers are connected, and the state that depends on it.

use crate::in_band::InBand;
use units::Millis;

/// Whether a bridge's controllers are connected, and the state that depends on it.
#[derive(Clone, Debug, Default)]
pub struct ControllerState {
    /// Whether at least one controller is connected.
    pub any_connected: bool,
    /// The time since which no controller is connected; `None` while a controller is connected or the bridge needs no controller.
    pub disconnected_since: Option<Millis>,
    /// Whether the standalone fallback flow is installed, with which the bridge forwards without a controller.
    pub fallback_flow_installed: bool,
    /// Whether a connection has subscribed to packets that match no flow.
    pub packet_in_on_miss: bool,
    /// In-band control: hidden flows through which the switch reaches its controllers over the bridge.
    pub in_band: InBand,
}
