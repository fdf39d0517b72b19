//! Port information machine (§17.27).

use super::bridge::Bridge;
use super::port::{InfoIs, Information, Port, Variables};
use super::vector::{Times, Vector};
use crate::spanning_tree::bpdu::{Bpdu, BpduFlags, Message, Role};

/// Hello messages that may be missed before a neighbour is considered silent (§17.21.23).
const HELLOS_MISSED: u16 = 3;

/// Kinds of received messages (rcvdInfo, §17.19.26).
#[derive(Clone, Copy, PartialEq, Eq)]
enum MessageKind {
    SuperiorDesignated,
    RepeatedDesignated,
    InferiorDesignated,
    InferiorRootAlternate,
    Other,
}

impl Bridge {
    /// Port information machine.
    pub(super) fn port_information(&mut self, number: u16) -> bool {
        let rapid = self.is_rapid();
        let Some(port) = self.ports.get_mut(&number) else { return false };
        let enabled = port.is_enabled();
        if !enabled && port.info.is != InfoIs::Disabled {
            port.disable();
            return true;
        }
        match port.machines.information {
            Information::Disabled if enabled => port.age(),
            Information::Aged | Information::Current
                if port.has(Variables::SELECTED | Variables::UPDT_INFO) =>
            {
                port.update()
            }
            Information::Current if port.has(Variables::RCVD_MSG) && !port.has(Variables::UPDT_INFO) => {
                let Some(bpdu) = port.received.take() else { return false };
                port.process(&bpdu, rapid);
            }
            Information::Current
                if port.info.is == InfoIs::Received
                    && port.timers.received_info == 0
                    && !port.has_any(Variables::UPDT_INFO | Variables::RCVD_MSG) =>
            {
                port.age();
            }
            _ => return false,
        }
        true
    }
}

impl Port {
    /// State DISABLED.
    fn disable(&mut self) {
        self.machines.information = Information::Disabled;
        self.info.is = InfoIs::Disabled;
        self.variables -= Variables::RCVD_MSG
            | Variables::PROPOSING
            | Variables::PROPOSED
            | Variables::AGREE
            | Variables::AGREED;
        self.timers.received_info = 0;
        self.reselect();
    }

    /// State AGED: the port has no valid information of a neighbour.
    fn age(&mut self) {
        self.machines.information = Information::Aged;
        self.info.is = InfoIs::Aged;
        self.reselect();
    }

    /// State UPDATE: the port takes over the information that the bridge announces.
    fn update(&mut self) {
        self.machines.information = Information::Current;
        self.variables -= Variables::PROPOSING | Variables::PROPOSED;
        // An agreement to worse information is not valid for better information (betterorsameInfo).
        let better_or_same = self.info.is == InfoIs::Mine && self.info.designated <= self.info.priority;
        if !better_or_same {
            self.variables -= Variables::AGREED;
        }
        if !self.has(Variables::AGREED) {
            self.variables -= Variables::SYNCED;
        }
        (self.info.priority, self.info.times) = (self.info.designated, self.info.designated_times);
        self.info.is = InfoIs::Mine;
        self.variables -= Variables::UPDT_INFO;
        self.variables |= Variables::NEW_INFO;
    }

    /// Processes a message. `rapid`: the bridge uses RSTP, not STP compatibility mode.
    fn process(&mut self, bpdu: &Bpdu, rapid: bool) {
        self.variables -= Variables::RCVD_MSG;
        let (Bpdu::Config(message) | Bpdu::Rst(message)) = bpdu else {
            self.variables |= Variables::RCVD_TCN;
            return;
        };
        match self.classify(message) {
            MessageKind::SuperiorDesignated => {
                self.variables -= Variables::AGREED | Variables::PROPOSING;
                self.record_proposal(message);
                self.set_tc_flags(message);
                let better_or_same =
                    self.info.is == InfoIs::Received && Vector::of(message) <= self.info.priority;
                if !better_or_same {
                    self.variables -= Variables::AGREE;
                }
                self.info.priority = Vector::of(message);
                self.info.times = Times::of(message);
                self.info.times.hello_time = self.info.times.hello_time.max(1);
                self.updt_rcvd_info_while();
                self.info.is = InfoIs::Received;
                self.reselect();
            }
            MessageKind::RepeatedDesignated => {
                self.record_proposal(message);
                self.set_tc_flags(message);
                self.updt_rcvd_info_while();
            }
            MessageKind::InferiorDesignated => self.record_dispute(message),
            MessageKind::InferiorRootAlternate => {
                self.record_agreement(message, rapid);
                self.set_tc_flags(message);
            }
            MessageKind::Other => {}
        }
    }

    /// rcvInfo (§17.21.8)
    fn classify(&self, message: &Message) -> MessageKind {
        let (said, known) = (Vector::of(message), &self.info.priority);
        let mut times = Times::of(message);
        times.hello_time = times.hello_time.max(1);
        let same = said == *known;
        match message.role {
            Role::Designated if said.is_superior_to(known) => MessageKind::SuperiorDesignated,
            Role::Designated if same && times != self.info.times => MessageKind::SuperiorDesignated,
            Role::Designated if same => MessageKind::RepeatedDesignated,
            Role::Designated => MessageKind::InferiorDesignated,
            Role::Root | Role::AlternateOrBackup if said >= *known => MessageKind::InferiorRootAlternate,
            _ => MessageKind::Other,
        }
    }

    /// recordProposal (§17.21.13)
    fn record_proposal(&mut self, message: &Message) {
        if message.flags.contains(BpduFlags::PROPOSAL) {
            self.variables |= Variables::PROPOSED;
        }
    }

    /// recordAgreement (§17.21.9)
    fn record_agreement(&mut self, message: &Message, rapid: bool) {
        let agrees = rapid && self.is_point_to_point() && message.flags.contains(BpduFlags::AGREEMENT);
        self.variables.set(Variables::AGREED, agrees);
        if agrees {
            self.variables -= Variables::PROPOSING;
        }
    }

    /// recordDispute (IEEE 802.1Q-2014 §13.29.17): another bridge considers itself designated on this LAN and learns or forwards, so it does not
    /// receive our BPDUs. The port stops forwarding, and does not start again as long as such messages arrive.
    fn record_dispute(&mut self, message: &Message) {
        if !message.flags.contains(BpduFlags::LEARNING) {
            return;
        }
        self.variables -= Variables::AGREED;
        if self.has_any(Variables::LEARN | Variables::FORWARD) {
            self.variables |= Variables::DISPUTED;
        } else {
            let until_silent = HELLOS_MISSED * self.info.designated_times.hello_time;
            self.timers.forward_delay = self.timers.forward_delay.max(until_silent);
        }
    }

    /// setTcFlags (§17.21.17)
    fn set_tc_flags(&mut self, message: &Message) {
        if message.flags.contains(BpduFlags::TOPOLOGY_CHANGE) {
            self.variables |= Variables::RCVD_TC;
        }
        if message.flags.contains(BpduFlags::TOPOLOGY_CHANGE_ACK) {
            self.variables |= Variables::RCVD_TC_ACK;
        }
    }

    /// updtRcvdInfoWhile (§17.21.23)
    fn updt_rcvd_info_while(&mut self) {
        let Times { message_age, max_age, hello_time, .. } = self.info.times;
        self.timers.received_info =
            if message_age < max_age { hello_time.saturating_mul(HELLOS_MISSED) } else { 0 };
    }
}
