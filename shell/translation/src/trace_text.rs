//! Text of actions, matches and ports in traces.

use flow::Match;
use flow::text::{NameMap, NoNames};
use openflow::Action;
use units::OfPort;
use xlate::TraceFormat;

/// Formats the parts of a trace in the syntax of ovs-ofctl(8).
pub struct TraceText {
    /// Show names of ports instead of numbers.
    pub names: bool,
}

impl TraceFormat for TraceText {
    fn actions(&self, bridge: &xlate::BridgeView, actions: &[Action]) -> String {
        match self.names {
            true => openflow::text::actions_text(actions, &BridgePortNames(bridge)),
            false => openflow::text::actions_text(actions, &NoNames),
        }
    }

    fn matching(&self, bridge: &xlate::BridgeView, matching: &Match) -> String {
        if self.names { matching.text(&BridgePortNames(bridge)) } else { matching.text(&NoNames) }
    }
}

/// Names of the ports of a published bridge.
pub struct BridgePortNames<'a>(pub &'a xlate::BridgeView);

impl NameMap for BridgePortNames<'_> {
    fn port_name(&self, port: OfPort) -> Option<String> {
        self.0.port(port).map(|p| p.name.clone())
    }

    fn port_number(&self, name: &str) -> Option<OfPort> {
        self.0.ports.values().find(|p| p.name == name).map(|p| p.ofport)
    }
}
