//! Port receive, port protocol migration and bridge detection machines (§17.23 to §17.25).

use super::bridge::{Bridge, MIGRATE_TIME};
use super::port::{Migration, Variables};
use crate::spanning_tree::bpdu::Bpdu;

impl Bridge {
    /// Port receive machine. Like the functions of all state machines, it returns whether something changed.
    pub(super) fn port_receive(&mut self, number: u16) -> bool {
        let Some(port) = self.ports.get_mut(&number) else { return false };
        if !port.is_enabled() {
            let moves = port.received.is_some() || port.timers.edge_delay != MIGRATE_TIME;
            port.received = None;
            port.variables -= Variables::RCVD_RSTP | Variables::RCVD_STP | Variables::RCVD_MSG;
            port.timers.edge_delay = MIGRATE_TIME;
            return moves;
        }
        let Some(bpdu) = port.received.filter(|_| !port.has(Variables::RCVD_MSG)) else { return false };
        // updtBPDUVersion
        let rapid = matches!(bpdu, Bpdu::Rst(_));
        port.variables.set(Variables::RCVD_RSTP, rapid);
        port.variables.set(Variables::RCVD_STP, !rapid);
        port.variables -= Variables::OPER_EDGE;
        port.variables |= Variables::RCVD_MSG;
        port.timers.edge_delay = MIGRATE_TIME;
        true
    }

    /// Bridge detection machine, whose state is the variable operEdge.
    pub(super) fn bridge_detection(&mut self, number: u16) -> bool {
        let Some(port) = self.ports.get_mut(&number) else { return false };
        let admin_edge = port.settings.admin_edge;
        let is_edge = port.has(Variables::OPER_EDGE);
        let becomes_edge = match port.is_enabled() {
            false => admin_edge,
            true => {
                is_edge
                    || port.timers.edge_delay == 0
                        && port.settings.auto_edge
                        && port.has(Variables::SEND_RSTP | Variables::PROPOSING)
            }
        };
        port.variables.set(Variables::OPER_EDGE, becomes_edge);
        becomes_edge != is_edge
    }

    /// Port protocol migration machine.
    pub(super) fn protocol_migration(&mut self, number: u16) -> bool {
        let rapid = self.is_rapid();
        let Some(port) = self.ports.get_mut(&number) else { return false };
        let enabled = port.is_enabled();
        let delay = port.timers.migration_delay;
        let next = match port.machines.migration {
            Migration::CheckingRstp if delay == 0 => Migration::Sensing,
            Migration::CheckingRstp if delay != MIGRATE_TIME && !enabled => Migration::CheckingRstp,
            Migration::SelectingStp if delay == 0 || !enabled || port.has(Variables::MCHECK) => {
                Migration::Sensing
            }
            Migration::Sensing
                if !enabled
                    || port.has(Variables::MCHECK)
                    || rapid && !port.has(Variables::SEND_RSTP) && port.has(Variables::RCVD_RSTP) =>
            {
                Migration::CheckingRstp
            }
            Migration::Sensing if port.has(Variables::SEND_RSTP | Variables::RCVD_STP) => {
                Migration::SelectingStp
            }
            _ => return false,
        };
        port.machines.migration = next;
        match next {
            Migration::CheckingRstp => {
                port.variables -= Variables::MCHECK;
                port.variables.set(Variables::SEND_RSTP, rapid);
                port.timers.migration_delay = MIGRATE_TIME;
            }
            Migration::SelectingStp => {
                port.variables -= Variables::SEND_RSTP;
                port.timers.migration_delay = MIGRATE_TIME;
            }
            Migration::Sensing => port.variables -= Variables::RCVD_RSTP | Variables::RCVD_STP,
        }
        true
    }
}
