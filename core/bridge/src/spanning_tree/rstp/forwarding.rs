//! Port state transition machine (§17.30). A port learns and forwards until the caller has confirmed that it does not.

use super::bridge::Bridge;
use super::port::Is;
use crate::spanning_tree::port_state::PortState;

impl Bridge {
    /// Port state transition machine.
    pub(super) fn state_transition(&mut self, number: u16) -> bool {
        let Some(port) = self.ports.get_mut(&number) else { return false };
        let (learn, forward) = (port.has(Is::LEARN), port.has(Is::FORWARD));
        let stopped = !port.has_any(Is::LEARNING | Is::FORWARDING);
        let next = match port.state {
            PortState::Forwarding if !forward => PortState::Discarding,
            PortState::Learning if !learn => PortState::Discarding,
            PortState::Learning if forward => PortState::Forwarding,
            PortState::Discarding if learn && stopped => PortState::Learning,
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
