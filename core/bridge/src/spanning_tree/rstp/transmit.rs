//! Port transmit machine (IEEE 802.1D-2004 §17.26).

use super::bridge::{Bridge, HELLO_TIME};
use super::port::{Port, PortRole, Variables};
use crate::spanning_tree::bpdu::{Bpdu, BpduFlags, Message, Role};
use crate::spanning_tree::frame::frame;

impl Bridge {
    /// Port transmit machine. Returns whether the machine made a transition.
    pub(super) fn port_transmit(&mut self, number: u16) -> bool {
        let hold = self.settings.transmit_hold_count;
        let Some(port) = self.ports.get_mut(&number) else { return false };
        if port.role == PortRole::Disabled || !port.is_settled() {
            return false;
        }
        if port.timers.hello == 0 {
            let sends_hello = port.role == PortRole::Designated
                || port.role == PortRole::Root && port.timers.topology_change != 0;
            if sends_hello {
                port.variables |= Variables::NEW_INFO;
            }
            port.timers.hello = HELLO_TIME;
            return true;
        }
        if !port.has(Variables::NEW_INFO) || port.tx_count >= hold {
            return false;
        }
        let bpdu = match (port.has(Variables::SEND_RSTP), port.role) {
            (true, role) => Bpdu::Rst(port.rst_message(role)),
            (false, PortRole::Root) => Bpdu::Tcn,
            (false, PortRole::Designated) => Bpdu::Config(port.config_message()),
            (false, _) => return false,
        };
        port.variables -= Variables::NEW_INFO;
        if bpdu != Bpdu::Tcn {
            port.variables -= Variables::TC_ACK;
        }
        port.tx_count += 1;
        port.counts.tx += 1;
        port.timers.hello = HELLO_TIME;
        self.output.frames.push((port.ofport, frame(&bpdu, port.link.mac)));
        true
    }
}

impl Port {
    /// txConfig (§17.21.19)
    fn config_message(&self) -> Message {
        let designated = &self.info.designated;
        let mut message = Message {
            flags: BpduFlags::empty(),
            role: Role::Designated,
            root: designated.root,
            root_path_cost: designated.cost,
            bridge: designated.bridge,
            port: designated.port,
            ..Message::default()
        };
        self.info.designated_times.put(&mut message);
        message.flags.set(BpduFlags::TOPOLOGY_CHANGE, self.timers.topology_change != 0);
        message.flags.set(BpduFlags::TOPOLOGY_CHANGE_ACK, self.has(Variables::TC_ACK));
        message
    }

    /// txRstp (§17.21.20)
    fn rst_message(&self, role: PortRole) -> Message {
        let role = match role {
            PortRole::Root => Role::Root,
            PortRole::Designated => Role::Designated,
            PortRole::Alternate | PortRole::Backup => Role::AlternateOrBackup,
            PortRole::Disabled => Role::Unknown,
        };
        let mut message = Message { role, ..self.config_message() };
        let flags = [
            (BpduFlags::AGREEMENT, Variables::AGREE),
            (BpduFlags::PROPOSAL, Variables::PROPOSING),
            (BpduFlags::LEARNING, Variables::LEARNING),
            (BpduFlags::FORWARDING, Variables::FORWARDING),
        ];
        flags.into_iter().for_each(|(flag, variable)| message.flags.set(flag, self.has(variable)));
        // Only bridges with STP need acknowledgements.
        message.flags -= BpduFlags::TOPOLOGY_CHANGE_ACK;
        message
    }
}
