//! Port state transition machine (§17.30). A port counts as learning and forwarding until the caller has confirmed that
//! it has stopped.

use super::bridge::Bridge;
use super::port::{Port, Variables};
use crate::spanning_tree::port_state::PortState;

impl Bridge {
    /// Port state transition machine. In the standard a port stops at once. Here it takes some time, and meanwhile no
    /// other port starts: the agreement of a neighbour may depend on the state that the stopping port has already
    /// announced.
    pub(super) fn state_transition(&mut self, number: u16) -> bool {
        let may_start = self.all_others(number, |port| !port.is_stopping());
        let Some(port) = self.ports.get_mut(&number) else { return false };
        let (learn, forward) = (port.has(Variables::LEARN), port.has(Variables::FORWARD));
        let next = match port.state {
            PortState::Forwarding if !forward => PortState::Discarding,
            PortState::Learning if !learn => PortState::Discarding,
            PortState::Learning if forward && may_start => PortState::Forwarding,
            PortState::Discarding if learn && may_start && !port.is_stopping() => PortState::Learning,
            _ => return false,
        };
        port.state = next;
        match next {
            PortState::Learning => port.variables |= Variables::LEARNING,
            PortState::Forwarding => port.variables |= Variables::FORWARDING,
            _ => {}
        }
        self.output.note_state(port.ofport);
        true
    }
}

impl Port {
    /// Whether the port must discard, but may still learn or forward.
    fn is_stopping(&self) -> bool {
        self.state == PortState::Discarding && self.has_any(Variables::LEARNING | Variables::FORWARDING)
    }
}
