//! How a trace shows actions, matches and ports.

use flow::Match;
use flow::text::{NameMap, NoNames};
use openflow::Action;
use units::OfPort;
use xlate::Text;

/// The parts of a trace, in the words of ovs-ofctl(8).
pub struct Words {
    /// Names of ports instead of numbers.
    pub names: bool,
}

impl Text for Words {
    fn actions(&self, bridge: &xlate::Bridge, actions: &[Action]) -> String {
        match self.names {
            true => openflow::text::actions_text(actions, &ViewNames(bridge)),
            false => openflow::text::actions_text(actions, &NoNames),
        }
    }

    fn matching(&self, bridge: &xlate::Bridge, matching: &Match) -> String {
        if self.names { matching.text(&ViewNames(bridge)) } else { matching.text(&NoNames) }
    }
}

/// The ports of a published bridge.
pub struct ViewNames<'a>(pub &'a xlate::Bridge);

impl NameMap for ViewNames<'_> {
    fn port_name(&self, port: OfPort) -> Option<String> {
        self.0.port(port).map(|p| p.name.clone())
    }

    fn port_number(&self, name: &str) -> Option<OfPort> {
        self.0.ports.values().find(|p| p.name == name).map(|p| p.ofport)
    }
}
