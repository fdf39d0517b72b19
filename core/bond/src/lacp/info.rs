//! The information that an end of a link announces about itself (IEEE 802.1AX-2014 §6.4.2.3).

use flow::Mac;

/// Bits of the state field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State(pub u8);

impl State {
    /// The end sends messages even if the other end has sent none.
    pub const ACTIVITY: State = State(1 << 0);
    /// The end requests a message every second.
    pub const TIMEOUT: State = State(1 << 1);
    /// The link may be aggregated with others.
    pub const AGGREGATION: State = State(1 << 2);
    /// The end has attached the link to the right aggregation.
    pub const SYNCHRONIZED: State = State(1 << 3);
    /// The end accepts packets on the link.
    pub const COLLECTING: State = State(1 << 4);
    /// The end sends packets on the link.
    pub const DISTRIBUTING: State = State(1 << 5);
    /// The information about the other end is a default.
    pub const DEFAULTED: State = State(1 << 6);
    /// No message of the other end arrived in time.
    pub const EXPIRED: State = State(1 << 7);

    /// The names of the bits in commands, from the lowest bit.
    const NAMES: [&'static str; 8] = [
        "activity",
        "timeout",
        "aggregation",
        "synchronized",
        "collecting",
        "distributing",
        "defaulted",
        "expired",
    ];

    /// The union of the bits of two states.
    pub fn union(self, other: State) -> State {
        State(self.0 | other.0)
    }

    /// This state if the condition holds, else no bits.
    pub fn when(self, condition: bool) -> State {
        if condition { self } else { State(0) }
    }

    /// This state without the bits of `other`.
    pub fn without(self, other: State) -> State {
        State(self.0 & !other.0)
    }

    /// Whether all bits of `other` are set.
    pub fn has(self, other: State) -> bool {
        self.0 & other.0 == other.0
    }

    /// The names of the bits that are set, each after a space.
    pub fn text(self) -> String {
        let set = Self::NAMES.iter().enumerate().filter(|(i, _)| self.0 & 1 << i != 0);
        set.map(|(_, name)| format!(" {name}")).collect()
    }
}

/// The information that an end of a link announces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Info {
    /// Priority of the system; the system with the lower number decides which links are attached.
    pub system_priority: u16,
    /// Id of the system.
    pub system: Mac,
    /// Links with the same key may be aggregated with each other.
    pub key: u16,
    /// Priority of the link; lower numbers are preferred.
    pub port_priority: u16,
    /// The link's number within its system.
    pub port: u16,
    /// State of the end.
    pub state: State,
}

/// The order of links: system priority, system id, link priority, link number.
pub(crate) type Priority = (u16, Mac, u16, u16);

impl Info {
    /// The position of the link in the order; the lowest value is preferred.
    pub(crate) fn priority(&self) -> Priority {
        (self.system_priority, self.system, self.port_priority, self.port)
    }

    /// Returns whether the information equals `known` in everything that must be announced at once when it changes
    /// (§6.4.16).
    pub(crate) fn agrees_with(&self, known: &Info) -> bool {
        const COMPARED: State = State(0b1111);
        (self.state.0 ^ known.state.0) & COMPARED.0 == 0
            && self.key == known.key
            && self.priority() == known.priority()
    }
}
