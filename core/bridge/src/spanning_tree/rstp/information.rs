//! Port information machine (§17.27).

use super::bridge::Bridge;
use super::port::{InfoIs, Information, Is, Port};
use super::vector::{Times, Vector};
use crate::spanning_tree::bpdu::{Bpdu, BpduFlags, Message, Role};

/// Hello messages that may be missed before a neighbour is considered silent (§17.21.23).
const HELLOS_MISSED: u16 = 3;

/// What a message says (rcvdInfo, §17.19.26).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Received {
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
            Information::Aged | Information::Current if port.has(Is::SELECTED | Is::UPDT_INFO) => {
                port.update()
            }
            Information::Current if port.has(Is::RCVD_MSG) && !port.has(Is::UPDT_INFO) => {
                let Some(bpdu) = port.received.take() else { return false };
                port.take(&bpdu, rapid);
            }
            Information::Current
                if port.info.is == InfoIs::Received
                    && port.timers.received_info == 0
                    && !port.has_any(Is::UPDT_INFO | Is::RCVD_MSG) =>
            {
                port.age();
            }
            _ => return false,
        }
        true
    }
}

impl Port {
    fn disable(&mut self) {
        self.machines.information = Information::Disabled;
        self.info.is = InfoIs::Disabled;
        self.is -= Is::RCVD_MSG | Is::PROPOSING | Is::PROPOSED | Is::AGREE | Is::AGREED;
        self.timers.received_info = 0;
        self.reselect();
    }

    fn age(&mut self) {
        self.machines.information = Information::Aged;
        self.info.is = InfoIs::Aged;
        self.reselect();
    }

    fn update(&mut self) {
        self.machines.information = Information::Current;
        self.is -= Is::PROPOSING | Is::PROPOSED;
        // An agreement to worse information (betterorsameInfo) does not hold for better one.
        let better_or_same = self.info.is == InfoIs::Mine && self.info.designated <= self.info.priority;
        if !better_or_same {
            self.is -= Is::AGREED;
        }
        if !self.has(Is::AGREED) {
            self.is -= Is::SYNCED;
        }
        (self.info.priority, self.info.times) = (self.info.designated, self.info.designated_times);
        self.info.is = InfoIs::Mine;
        self.is -= Is::UPDT_INFO;
        self.is |= Is::NEW_INFO;
    }

    /// Processes a message. `rapid`: the bridge does not behave like one with STP.
    fn take(&mut self, bpdu: &Bpdu, rapid: bool) {
        self.is -= Is::RCVD_MSG;
        let (Bpdu::Config(message) | Bpdu::Rst(message)) = bpdu else {
            self.is |= Is::RCVD_TCN;
            return;
        };
        match self.classify(message) {
            Received::SuperiorDesignated => {
                self.is -= Is::AGREED | Is::PROPOSING;
                self.record_proposal(message);
                self.set_tc_flags(message);
                let better_or_same =
                    self.info.is == InfoIs::Received && Vector::of(message) <= self.info.priority;
                if !better_or_same {
                    self.is -= Is::AGREE;
                }
                self.info.priority = Vector::of(message);
                self.info.times = Times::of(message);
                self.info.times.hello_time = self.info.times.hello_time.max(1);
                self.updt_rcvd_info_while();
                self.info.is = InfoIs::Received;
                self.reselect();
            }
            Received::RepeatedDesignated => {
                self.record_proposal(message);
                self.set_tc_flags(message);
                self.updt_rcvd_info_while();
            }
            Received::InferiorDesignated => self.record_dispute(message),
            Received::InferiorRootAlternate => {
                self.record_agreement(message, rapid);
                self.set_tc_flags(message);
            }
            Received::Other => {}
        }
    }

    /// rcvInfo (§17.21.8)
    fn classify(&self, message: &Message) -> Received {
        let (said, known) = (Vector::of(message), &self.info.priority);
        let mut times = Times::of(message);
        times.hello_time = times.hello_time.max(1);
        let same = said == *known;
        match message.role {
            Role::Designated if said.is_superior_to(known) => Received::SuperiorDesignated,
            Role::Designated if same && times != self.info.times => Received::SuperiorDesignated,
            Role::Designated if same => Received::RepeatedDesignated,
            Role::Designated => Received::InferiorDesignated,
            Role::Root | Role::AlternateOrBackup if said >= *known => Received::InferiorRootAlternate,
            _ => Received::Other,
        }
    }

    /// recordProposal (§17.21.13)
    fn record_proposal(&mut self, message: &Message) {
        if message.flags.contains(BpduFlags::PROPOSAL) {
            self.is |= Is::PROPOSED;
        }
    }

    /// recordAgreement (§17.21.9)
    fn record_agreement(&mut self, message: &Message, rapid: bool) {
        let agrees = rapid && self.is_point_to_point() && message.flags.contains(BpduFlags::AGREEMENT);
        self.is.set(Is::AGREED, agrees);
        if agrees {
            self.is -= Is::PROPOSING;
        }
    }

    /// recordDispute (IEEE 802.1Q-2014 §13.29.17): another bridge believes that it is designated here and lets frames pass, so
    /// it does not receive our BPDUs. The port stops to forward, and does not start again while that goes on.
    fn record_dispute(&mut self, message: &Message) {
        if !message.flags.contains(BpduFlags::LEARNING) {
            return;
        }
        self.is -= Is::AGREED;
        if self.has_any(Is::LEARN | Is::FORWARD) {
            self.is |= Is::DISPUTED;
        } else {
            let until_silent = HELLOS_MISSED * self.info.designated_times.hello_time;
            self.timers.forward_delay = self.timers.forward_delay.max(until_silent);
        }
    }

    /// setTcFlags (§17.21.17)
    fn set_tc_flags(&mut self, message: &Message) {
        if message.flags.contains(BpduFlags::TOPOLOGY_CHANGE) {
            self.is |= Is::RCVD_TC;
        }
        if message.flags.contains(BpduFlags::TOPOLOGY_CHANGE_ACK) {
            self.is |= Is::RCVD_TC_ACK;
        }
    }

    /// updtRcvdInfoWhile (§17.21.23)
    fn updt_rcvd_info_while(&mut self) {
        let Times { message_age, max_age, hello_time, .. } = self.info.times;
        self.timers.received_info =
            if message_age < max_age { hello_time.saturating_mul(HELLOS_MISSED) } else { 0 };
    }
}
