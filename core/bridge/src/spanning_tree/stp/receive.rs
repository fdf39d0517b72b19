//! Processing of received BPDUs (§8.7.1, §8.7.2).

use super::bridge::{Bridge, Designated, ERRORS, Port, RECEIVED};
use super::timer::{Times, millis};
use crate::spanning_tree::bpdu::{Bpdu, BpduFlags, Message, Refusal};
use crate::spanning_tree::event::Event;
use crate::spanning_tree::identifier::BridgeIdentifier;
use units::{Millis, OfPort};

impl Bridge {
    /// Processes a BPDU that a port received.
    pub fn receive(&mut self, port: OfPort, bytes: &[u8], now: Millis) {
        let found = self.ports.iter().find(|(_, p)| p.ofport == port && p.is_enabled());
        let Some((&number, _)) = found else { return };
        let result = match Bpdu::decode(bytes) {
            // RST BPDUs are refused: a neighbour with RSTP falls back to STP when it receives our BPDUs.
            Ok(Bpdu::Rst(_)) => Err(Refusal::Type(bytes.get(3).copied().unwrap_or_default())),
            Ok(Bpdu::Config(message)) if message.message_age >= message.max_age => {
                Err(Refusal::TooOld { age: message.message_age, max: message.max_age })
            }
            Ok(bpdu) => Ok(bpdu),
            Err(why) => Err(why),
        };
        let what = match &result {
            Ok(_) | Err(Refusal::TooOld { .. }) => RECEIVED,
            Err(_) => ERRORS,
        };
        if let Some(port) = self.ports.get_mut(&number) {
            port.counts[what] += 1;
        }
        match result {
            Ok(Bpdu::Config(message)) => self.receive_config(number, &message, now),
            Ok(_) => self.receive_tcn(number, now),
            Err(why) => self.output.events.push(Event::Refused(why)),
        }
    }

    /// Received configuration BPDU (§8.7.1).
    fn receive_config(&mut self, number: u16, message: &Message, now: Millis) {
        let own = self.identifier;
        let Some(port) = self.ports.get_mut(&number) else { return };
        if !port.is_superseded_by(message, own) {
            if port.is_designated(own) {
                self.transmit_config(number, now);
            }
            return;
        }
        let was_root = self.is_root();
        if let Some(port) = self.ports.get_mut(&number) {
            port.record(message, now);
        }
        self.configuration_update();
        self.port_state_selection(now);
        if !self.is_root() && was_root {
            self.hello.stop();
            if self.topology_change_detected {
                self.topology_change_timer.stop();
                self.transmit_tcn();
                self.tcn.start(Millis(0), now);
            }
        }
        if self.root_port == Some(number) {
            self.record_timeout_values(message);
            self.config_bpdu_generation(now);
            if message.flags.contains(BpduFlags::TOPOLOGY_CHANGE_ACK) {
                self.acknowledged();
            }
            self.output.flush.all |= message.flags.contains(BpduFlags::TOPOLOGY_CHANGE);
        }
    }

    /// Record configuration timeout values (§8.6.3).
    fn record_timeout_values(&mut self, message: &Message) {
        self.times = Times {
            hello_time: message.hello_time,
            max_age: message.max_age,
            forward_delay: message.forward_delay,
        };
        self.topology_change = message.flags.contains(BpduFlags::TOPOLOGY_CHANGE);
    }

    /// Topology change acknowledged (§8.6.15).
    fn acknowledged(&mut self) {
        self.topology_change_detected = false;
        self.tcn.stop();
    }

    /// Received topology change notification BPDU (§8.7.2).
    fn receive_tcn(&mut self, number: u16, now: Millis) {
        let own = self.identifier;
        if self.ports.get(&number).is_none_or(|p| !p.is_designated(own)) {
            return;
        }
        self.change_topology(now);
        // Acknowledge topology change (§8.6.16).
        if let Some(port) = self.ports.get_mut(&number) {
            port.topology_change_ack = true;
        }
        self.transmit_config(number, now);
    }
}

impl Port {
    /// Supersedes port information (§8.6.2.2).
    fn is_superseded_by(&self, message: &Message, own: BridgeIdentifier) -> bool {
        let said = (message.root, message.root_path_cost, message.bridge);
        let known = (self.designated.root, self.designated.cost, self.designated.bridge);
        said < known || said == known && (message.bridge != own || message.port <= self.designated.port)
    }

    /// Record configuration information (§8.6.2).
    fn record(&mut self, message: &Message, now: Millis) {
        self.designated = Designated {
            root: message.root,
            cost: message.root_path_cost,
            bridge: message.bridge,
            port: message.port,
        };
        self.message_age.start(millis(message.message_age), now);
    }
}
