//! Handles expired timers (§8.7.3 to §8.7.8).

use super::bridge::Bridge;
use super::timer::millis;
use crate::spanning_tree::port_state::PortState;
use units::Millis;

/// Shortest time between two configuration BPDUs of a port (table 8-3).
const HOLD_TIME: Millis = Millis(1000);

impl Bridge {
    /// How long the root announces a topology change (§8.5.3.13).
    fn topology_change_time(&self) -> Millis {
        millis(self.times.max_age) + millis(self.times.forward_delay)
    }

    /// Handles expired timers.
    pub fn run(&mut self, now: Millis) {
        if self.hello.expire(millis(self.times.hello_time), now) {
            self.config_bpdu_generation(now);
            self.hello.start(Millis(0), now);
        }
        if self.tcn.expire(millis(self.own_times.hello_time), now) {
            self.transmit_tcn();
            self.tcn.start(Millis(0), now);
        }
        if self.topology_change_timer.expire(self.topology_change_time(), now) {
            self.topology_change_detected = false;
            self.topology_change = false;
        }
        for number in self.enabled() {
            let limit = millis(self.times.max_age);
            if self.ports.get_mut(&number).is_some_and(|p| p.message_age.expire(limit, now)) {
                self.message_age_expired(number, now);
            }
        }
        for number in self.enabled() {
            let limit = millis(self.times.forward_delay);
            if self.ports.get_mut(&number).is_some_and(|p| p.forward_delay.expire(limit, now)) {
                self.forward_delay_expired(number, now);
            }
            let Some(port) = self.ports.get_mut(&number) else { continue };
            if port.hold.expire(HOLD_TIME, now) && port.config_pending {
                self.transmit_config(number, now);
            }
        }
    }

    /// When the next timer expires.
    pub fn deadline(&self) -> Option<Millis> {
        let bridge = [
            self.hello.expiry(millis(self.times.hello_time)),
            self.tcn.expiry(millis(self.own_times.hello_time)),
            self.topology_change_timer.expiry(self.topology_change_time()),
        ];
        let (max_age, delay) = (millis(self.times.max_age), millis(self.times.forward_delay));
        let ports = self.ports.values().filter(|p| p.is_enabled()).flat_map(|p| {
            [p.message_age.expiry(max_age), p.forward_delay.expiry(delay), p.hold.expiry(HOLD_TIME)]
        });
        bridge.into_iter().chain(ports).flatten().min()
    }

    /// Message age timer expiry (§8.7.4).
    fn message_age_expired(&mut self, number: u16, now: Millis) {
        let was_root = self.is_root();
        self.become_designated(number);
        self.configuration_update();
        self.port_state_selection(now);
        if self.is_root() && !was_root {
            self.become_root(now);
        }
    }

    /// Forward delay timer expiry (§8.7.5).
    fn forward_delay_expired(&mut self, number: u16, now: Millis) {
        match self.ports.get_mut(&number) {
            Some(port) if port.state == PortState::Listening => {
                port.forward_delay.start(Millis(0), now);
                self.set_state(number, PortState::Learning, now);
            }
            Some(port) if port.state == PortState::Learning => {
                self.set_state(number, PortState::Forwarding, now);
                if self.is_designated_for_some() {
                    self.change_topology(now);
                }
            }
            _ => {}
        }
    }
}
