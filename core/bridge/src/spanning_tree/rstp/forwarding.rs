//! Port state transition machine (§17.30). A port learns and forwards until the caller has confirmed that it does not.

use super::bridge::Bridge;
use super::port::{Is, Port};
use crate::spanning_tree::port_state::PortState;

impl Bridge {
    /// Port state transition machine. The standard stops a port at once. Here it takes a while, and meanwhile no other
    /// port starts: a neighbour's agreement may rest on what the stopping port has announced already.
    pub(super) fn state_transition(&mut self, number: u16) -> bool {
        let may_start = self.all_others(number, |port| !port.is_stopping());
        let Some(port) = self.ports.get_mut(&number) else { return false };
        let (learn, forward) = (port.has(Is::LEARN), port.has(Is::FORWARD));
        let next = match port.state {
            PortState::Forwarding if !forward => PortState::Discarding,
            PortState::Learning if !learn => PortState::Discarding,
            PortState::Learning if forward && may_start => PortState::Forwarding,
            PortState::Discarding if learn && may_start && !port.is_stopping() => PortState::Learning,
            _ => return false,
        };
        port.state = next;
        match next {
            PortState::Learning => port.is |= Is::LEARNING,
            PortState::Forwarding => port.is |= Is::FORWARDING,
            _ => {}
        }
        self.output.note_state(port.number);
        true
    }
}

impl Port {
    /// Whether it is to discard, and may still learn or forward.
    fn is_stopping(&self) -> bool {
        self.state == PortState::Discarding && self.has_any(Is::LEARNING | Is::FORWARDING)
    }
}
