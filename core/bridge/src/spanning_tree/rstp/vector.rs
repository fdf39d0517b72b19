//! Priority vectors (§17.5, §17.6) and times (§17.13).

use crate::spanning_tree::bpdu::Message;
use crate::spanning_tree::identifier::BridgeIdentifier;

/// Units of times in BPDUs per second.
const UNITS: u16 = 256;

/// Mask of the number in a port identifier; the priority is in the other bits.
pub(super) const NUMBER_MASK: u16 = 0xfff;

/// A priority vector without its last component (the receiving port). Lower is better.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Vector {
    pub(super) root: BridgeIdentifier,
    pub(super) cost: u32,
    pub(super) bridge: BridgeIdentifier,
    pub(super) port: u16,
}

impl Vector {
    /// The priority vector of a message.
    pub(super) fn of(message: &Message) -> Vector {
        let Message { root, root_path_cost: cost, bridge, port, .. } = *message;
        Vector { root, cost, bridge, port }
    }

    /// Whether a message with this vector replaces the information of a port (§17.6): the vector is better, or the same sender now announces another
    /// vector.
    pub(super) fn is_superior_to(&self, known: &Vector) -> bool {
        let sender = |v: &Vector| (v.bridge.mac(), v.port & NUMBER_MASK);
        self < known || self != known && sender(self) == sender(known)
    }
}

/// Times in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Times {
    pub(super) message_age: u16,
    pub(super) max_age: u16,
    pub(super) hello_time: u16,
    pub(super) forward_delay: u16,
}

impl Times {
    /// The times of a message.
    pub(super) fn of(message: &Message) -> Times {
        Times {
            message_age: message.message_age / UNITS,
            max_age: message.max_age / UNITS,
            hello_time: message.hello_time / UNITS,
            forward_delay: message.forward_delay / UNITS,
        }
    }

    /// Writes the times into a message.
    pub(super) fn put(self, message: &mut Message) {
        let units = |seconds: u16| seconds.saturating_mul(UNITS);
        message.message_age = units(self.message_age);
        message.max_age = units(self.max_age);
        message.hello_time = units(self.hello_time);
        message.forward_delay = units(self.forward_delay);
    }
}
