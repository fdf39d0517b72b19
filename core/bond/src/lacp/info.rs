//! What an end of a link says of itself (IEEE 802.1AX-2014 §6.4.2.3).

use flow::Mac;

/// Bits of the state field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State(pub u8);

impl State {
    /// Speaks without having been spoken to.
    pub const ACTIVITY: State = State(1 << 0);
    /// Wants a message each second.
    pub const TIMEOUT: State = State(1 << 1);
    /// The link may be one of several.
    pub const AGGREGATION: State = State(1 << 2);
    /// The link belongs where it is attached.
    pub const SYNCHRONIZED: State = State(1 << 3);
    /// Packets are received by it.
    pub const COLLECTING: State = State(1 << 4);
    /// Packets are sent by it.
    pub const DISTRIBUTING: State = State(1 << 5);
    /// Nothing is known of the other end.
    pub const DEFAULTED: State = State(1 << 6);
    /// The other end has been silent for too long.
    pub const EXPIRED: State = State(1 << 7);

    /// Names as commands show them.
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

    /// Both.
    pub fn and(self, other: State) -> State {
        State(self.0 | other.0)
    }

    /// This one if the condition holds.
    pub fn when(self, condition: bool) -> State {
        if condition { self } else { State(0) }
    }

    /// Without these bits.
    pub fn without(self, other: State) -> State {
        State(self.0 & !other.0)
    }

    /// All these bits are set.
    pub fn has(self, other: State) -> bool {
        self.0 & other.0 == other.0
    }

    /// The names of the bits that are set, each after a space.
    pub fn text(self) -> String {
        let set = Self::NAMES.iter().enumerate().filter(|(i, _)| self.0 & 1 << i != 0);
        set.map(|(_, name)| format!(" {name}")).collect()
    }
}

/// See the module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Info {
    /// Priority of the system; the lower number decides.
    pub system_priority: u16,
    /// The system.
    pub system: Mac,
    /// Links with the same key may be attached to each other.
    pub key: u16,
    /// Priority of the link; the lower number comes first.
    pub port_priority: u16,
    /// The link's number within its system.
    pub port: u16,
    /// State.
    pub state: State,
}

/// What orders links: the system first, then the link.
pub(crate) type Priority = (u16, Mac, u16, u16);

impl Info {
    /// Its place among links; the lowest comes first.
    pub(crate) fn priority(&self) -> Priority {
        (self.system_priority, self.system, self.port_priority, self.port)
    }

    /// The other end does not have to be told: nothing differs that §6.4.16 wants to be told at once.
    pub(crate) fn is_told(&self, known: &Info) -> bool {
        const TOLD: State = State(0b1111);
        (self.state.0 ^ known.state.0) & TOLD.0 == 0
            && self.key == known.key
            && self.priority() == known.priority()
    }
}
