//! Topology change machine (§17.31).

use super::bridge::{Bridge, HELLO_TIME};
use super::port::{Port, PortRole, Topology, Variables};
use crate::spanning_tree::event::Event;
use units::Millis;

/// The variables about topology changes that a port received.
const RECEIVED: Variables =
    Variables::RCVD_TC.union(Variables::RCVD_TCN).union(Variables::RCVD_TC_ACK).union(Variables::TC_PROP);

impl Bridge {
    /// Topology change machine.
    pub(super) fn topology_change(&mut self, number: u16) -> bool {
        let stp_time = self.settings.max_age + self.settings.forward_delay;
        let Some(port) = self.ports.get_mut(&number) else { return false };
        let (active, edge) = (port.role.is_active(), port.has(Variables::OPER_EDGE));
        match port.machines.topology {
            Topology::Inactive if port.has(Variables::LEARN) => port.enter_learning(),
            Topology::Inactive => return false,
            Topology::Learning if port.has_any(RECEIVED) => port.enter_learning(),
            Topology::Learning if !active && !port.has_any(Variables::LEARN | Variables::LEARNING) => {
                port.machines.topology = Topology::Inactive;
                port.timers.topology_change = 0;
                port.variables -= Variables::TC_ACK;
                self.output.flush.ports.insert(port.ofport);
            }
            Topology::Learning if active && port.has(Variables::FORWARD) && !edge => {
                port.machines.topology = Topology::Active;
                self.detected(number, stp_time);
            }
            Topology::Learning => return false,
            Topology::Active if !active || edge => port.enter_learning(),
            Topology::Active if port.has_any(Variables::RCVD_TCN | Variables::RCVD_TC) => {
                if port.has(Variables::RCVD_TCN) {
                    port.new_tc_while(stp_time);
                }
                port.variables -= Variables::RCVD_TCN | Variables::RCVD_TC;
                if port.role == PortRole::Designated {
                    port.variables |= Variables::TC_ACK;
                }
                self.set_tc_prop_tree(number);
            }
            Topology::Active if port.has(Variables::TC_PROP) => {
                port.variables -= Variables::TC_PROP;
                port.new_tc_while(stp_time);
                self.output.flush.ports.insert(port.ofport);
            }
            Topology::Active if port.has(Variables::RCVD_TC_ACK) => {
                port.variables -= Variables::RCVD_TC_ACK;
                port.timers.topology_change = 0;
            }
            Topology::Active => return false,
        }
        true
    }

    /// The port has become active: announces a topology change to the other ports and bridges.
    fn detected(&mut self, number: u16, stp_time: u16) {
        if let Some(port) = self.ports.get_mut(&number) {
            port.new_tc_while(stp_time);
            port.variables |= Variables::NEW_INFO;
        }
        self.set_tc_prop_tree(number);
        self.output.events.push(Event::TopologyChange);
    }

    /// setTcPropTree (§17.21.18)
    fn set_tc_prop_tree(&mut self, number: u16) {
        let others = self.ports.iter_mut().filter(|(n, _)| **n != number);
        others.for_each(|(_, port)| port.variables |= Variables::TC_PROP);
    }

    /// Acts as if the topology had changed: learned addresses are removed in this bridge and in others.
    pub fn change_topology(&mut self, _now: Millis) {
        let active = self.ports.values_mut().filter(|p| p.machines.topology == Topology::Active);
        active.for_each(|port| port.variables |= Variables::TC_PROP);
        self.output.events.push(Event::TopologyChange);
        self.settle();
    }
}

impl Port {
    fn enter_learning(&mut self) {
        self.machines.topology = Topology::Learning;
        self.variables -= RECEIVED;
    }

    /// newTcWhile (§17.21.7). `stp_time`: how long a bridge with STP announces a change, in seconds.
    fn new_tc_while(&mut self, stp_time: u16) {
        if self.timers.topology_change != 0 {
            return;
        }
        if self.has(Variables::SEND_RSTP) {
            self.timers.topology_change = HELLO_TIME + 1;
            self.variables |= Variables::NEW_INFO;
        } else {
            self.timers.topology_change = stp_time;
        }
    }
}
