//! Sends BPDUs (§8.6.1, §8.6.4, §8.6.6).

use super::bridge::{Bridge, SENT};
use super::timer::units;
use crate::spanning_tree::bpdu::{Bpdu, BpduFlags, Message, Role};
use crate::spanning_tree::frame::frame;
use units::Millis;

/// The increment that a bridge adds to the message age of information that it passes on, in 1/256 s (§8.10.2).
const MESSAGE_AGE_INCREMENT: u16 = 1;

impl Bridge {
    /// Configuration BPDU generation (§8.6.4).
    pub(super) fn config_bpdu_generation(&mut self, now: Millis) {
        for number in self.enabled() {
            if self.ports.get(&number).is_some_and(|p| p.is_designated(self.identifier)) {
                self.transmit_config(number, now);
            }
        }
    }

    /// Transmit configuration BPDU (§8.6.1). At most one BPDU is sent in a hold time; a further request waits until
    /// the hold time ends.
    pub(super) fn transmit_config(&mut self, number: u16, now: Millis) {
        let message_age = match self.root_port.and_then(|root| self.ports.get(&root)) {
            Some(root) => units(root.message_age.value(now)).saturating_add(MESSAGE_AGE_INCREMENT),
            None => 0,
        };
        let Some(port) = self.ports.get_mut(&number) else { return };
        if port.hold.is_active() {
            port.config_pending = true;
            return;
        }
        let flags = [
            (port.topology_change_ack, BpduFlags::TOPOLOGY_CHANGE_ACK),
            (self.topology_change, BpduFlags::TOPOLOGY_CHANGE),
        ];
        let message = Message {
            flags: flags.into_iter().filter(|(on, _)| *on).map(|(_, flag)| flag).collect(),
            role: Role::Designated,
            root: self.root,
            root_path_cost: self.root_path_cost,
            bridge: self.identifier,
            port: port.id,
            message_age,
            max_age: self.times.max_age,
            hello_time: self.times.hello_time,
            forward_delay: self.times.forward_delay,
        };
        if message_age >= self.times.max_age {
            return;
        }
        port.topology_change_ack = false;
        port.config_pending = false;
        port.hold.start(Millis(0), now);
        self.send(number, &Bpdu::Config(message));
    }

    /// Transmit topology change notification BPDU (§8.6.6).
    pub(super) fn transmit_tcn(&mut self) {
        if let Some(number) = self.root_port {
            self.send(number, &Bpdu::Tcn);
        }
    }

    fn send(&mut self, number: u16, bpdu: &Bpdu) {
        let Some(port) = self.ports.get_mut(&number) else { return };
        port.counts[SENT] += 1;
        self.output.frames.push((port.ofport, frame(bpdu, port.link.mac)));
    }
}
