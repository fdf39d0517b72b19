//! Selection of the root, of designated ports, and of port states (§8.6.7 to §8.6.13).

use super::bridge::{Bridge, Designated, Port};
use crate::spanning_tree::port_state::PortState;
use units::Millis;

impl Bridge {
    /// The numbers of the ports that are up.
    pub(super) fn enabled(&self) -> Vec<u16> {
        self.ports.iter().filter(|(_, p)| p.is_enabled()).map(|(number, _)| *number).collect()
    }

    /// Configuration update (§8.6.7).
    pub(super) fn configuration_update(&mut self) {
        self.root_selection();
        self.designated_port_selection();
    }

    /// Root selection (§8.6.8).
    fn root_selection(&mut self) {
        let own = self.identifier;
        let path = |p: &Port| (p.designated.root, p.designated.cost.saturating_add(p.path_cost));
        let candidates = self.ports.iter().filter(|(_, p)| {
            p.is_enabled() && !p.is_designated(own) && p.designated.root < own && p.designated.bridge != own
        });
        let best = candidates.min_by_key(|(_, p)| (path(p), p.designated.bridge, p.designated.port, p.id));
        let best = best.map(|(number, port)| (*number, path(port)));
        self.root_port = best.map(|(number, _)| number);
        (self.root, self.root_path_cost) = best.map_or((own, 0), |(_, path)| path);
    }

    /// Designated port selection (§8.6.9).
    fn designated_port_selection(&mut self) {
        for number in self.enabled() {
            let Some(port) = self.ports.get(&number) else { continue };
            let known = &port.designated;
            let worse =
                (known.cost, known.bridge, known.port) >= (self.root_path_cost, self.identifier, port.id);
            if port.is_designated(self.identifier) || known.root != self.root || worse {
                self.become_designated(number);
            }
        }
    }

    /// Become designated port (§8.6.10).
    pub(super) fn become_designated(&mut self, number: u16) {
        let (root, cost, bridge) = (self.root, self.root_path_cost, self.identifier);
        if let Some(port) = self.ports.get_mut(&number) {
            port.designated = Designated { root, cost, bridge, port: port.id };
        }
    }

    /// Port state selection (§8.6.11).
    pub(super) fn port_state_selection(&mut self, now: Millis) {
        for number in self.enabled() {
            let is_root_port = self.root_port == Some(number);
            let Some(port) = self.ports.get_mut(&number) else { continue };
            if !is_root_port && port.is_designated(self.identifier) {
                port.message_age.stop();
                self.make_forwarding(number, now);
                continue;
            }
            port.config_pending = false;
            port.topology_change_ack = false;
            if is_root_port {
                self.make_forwarding(number, now);
            } else {
                self.make_blocking(number, now);
            }
        }
    }

    /// Make forwarding (§8.6.12).
    fn make_forwarding(&mut self, number: u16, now: Millis) {
        let Some(port) = self.ports.get_mut(&number) else { return };
        if port.state == PortState::Blocking {
            port.forward_delay.start(Millis(0), now);
            self.set_state(number, PortState::Listening, now);
        }
    }

    /// Make blocking (§8.6.13).
    fn make_blocking(&mut self, number: u16, now: Millis) {
        let Some(port) = self.ports.get_mut(&number) else { return };
        if matches!(port.state, PortState::Disabled | PortState::Blocking) {
            return;
        }
        port.forward_delay.stop();
        if port.state.learns() {
            self.change_topology(now);
        }
        self.set_state(number, PortState::Blocking, now);
    }

    /// Designated for some port (§8.6.3.3.3).
    pub(super) fn is_designated_for_some(&self) -> bool {
        self.ports.values().any(|p| p.is_enabled() && p.designated.bridge == self.identifier)
    }
}
