//! Topology change machine (§17.31).

use super::bridge::{Bridge, HELLO_TIME};
use super::port::{Is, Port, PortRole, Topology};
use crate::spanning_tree::event::Event;
use units::Millis;

/// What a port received about changes.
const RECEIVED: Is = Is::RCVD_TC.union(Is::RCVD_TCN).union(Is::RCVD_TC_ACK).union(Is::TC_PROP);

impl Bridge {
    /// Topology change machine.
    pub(super) fn topology_change(&mut self, number: u16) -> bool {
        let stp_time = self.settings.max_age + self.settings.forward_delay;
        let Some(port) = self.ports.get_mut(&number) else { return false };
        let (active, edge) = (port.role.is_active(), port.has(Is::OPER_EDGE));
        match port.machines.topology {
            Topology::Inactive if port.has(Is::LEARN) => port.enter_learning(),
            Topology::Inactive => return false,
            Topology::Learning if port.has_any(RECEIVED) => port.enter_learning(),
            Topology::Learning if !active && !port.has_any(Is::LEARN | Is::LEARNING) => {
                port.machines.topology = Topology::Inactive;
                port.timers.topology_change = 0;
                port.is -= Is::TC_ACK;
                self.output.flush.ports.insert(port.number);
            }
            Topology::Learning if active && port.has(Is::FORWARD) && !edge => {
                port.machines.topology = Topology::Active;
                self.detected(number, stp_time);
            }
            Topology::Learning => return false,
            Topology::Active if !active || edge => port.enter_learning(),
            Topology::Active if port.has_any(Is::RCVD_TCN | Is::RCVD_TC) => {
                if port.has(Is::RCVD_TCN) {
                    port.new_tc_while(stp_time);
                }
                port.is -= Is::RCVD_TCN | Is::RCVD_TC;
                if port.role == PortRole::Designated {
                    port.is |= Is::TC_ACK;
                }
                self.set_tc_prop_tree(number);
            }
            Topology::Active if port.has(Is::TC_PROP) => {
                port.is -= Is::TC_PROP;
                port.new_tc_while(stp_time);
                self.output.flush.ports.insert(port.number);
            }
            Topology::Active if port.has(Is::RCVD_TC_ACK) => {
                port.is -= Is::RCVD_TC_ACK;
                port.timers.topology_change = 0;
            }
            Topology::Active => return false,
        }
        true
    }

    /// The port has become active: others learn of it.
    fn detected(&mut self, number: u16, stp_time: u16) {
        if let Some(port) = self.ports.get_mut(&number) {
            port.new_tc_while(stp_time);
            port.is |= Is::NEW_INFO;
        }
        self.set_tc_prop_tree(number);
        self.output.events.push(Event::TopologyChange);
    }

    /// setTcPropTree (§17.21.18)
    fn set_tc_prop_tree(&mut self, number: u16) {
        let others = self.ports.iter_mut().filter(|(n, _)| **n != number);
        others.for_each(|(_, port)| port.is |= Is::TC_PROP);
    }

    /// Acts as if the topology had changed: addresses are removed here and in other bridges.
    pub fn change_topology(&mut self, _now: Millis) {
        let active = self.ports.values_mut().filter(|p| p.machines.topology == Topology::Active);
        active.for_each(|port| port.is |= Is::TC_PROP);
        self.output.events.push(Event::TopologyChange);
        self.settle();
    }
}

impl Port {
    fn enter_learning(&mut self) {
        self.machines.topology = Topology::Learning;
        self.is -= RECEIVED;
    }

    /// newTcWhile (§17.21.7). `stp_time`: how long a bridge with STP announces a change.
    fn new_tc_while(&mut self, stp_time: u16) {
        if self.timers.topology_change != 0 {
            return;
        }
        if self.has(Is::SEND_RSTP) {
            self.timers.topology_change = HELLO_TIME + 1;
            self.is |= Is::NEW_INFO;
        } else {
            self.timers.topology_change = stp_time;
        }
    }
}
