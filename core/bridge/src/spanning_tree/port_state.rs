//! States of ports in a spanning tree.

/// The protocol of a bridge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Spanning tree.
    Stp,
    /// Rapid spanning tree.
    Rstp,
}

impl Protocol {
    /// The protocol's name.
    pub const fn name(self) -> &'static str {
        match self {
            Protocol::Stp => "STP",
            Protocol::Rstp => "RSTP",
        }
    }
}

/// State of a port (IEEE 802.1D-1998 §8.4, 802.1D-2004 §7.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PortState {
    /// The port is down.
    #[default]
    Disabled,
    /// STP: the port neither learns nor forwards, because another port connects its LAN to the tree.
    Blocking,
    /// STP: the port neither learns nor forwards yet; the next state is learning.
    Listening,
    /// RSTP: the port neither learns nor forwards.
    Discarding,
    /// The port learns addresses, but does not forward.
    Learning,
    /// The port learns and forwards.
    Forwarding,
}

impl PortState {
    /// Whether addresses are learned.
    pub const fn learns(self) -> bool {
        matches!(self, PortState::Learning | PortState::Forwarding)
    }

    /// Whether frames are forwarded.
    pub const fn forwards(self) -> bool {
        matches!(self, PortState::Forwarding)
    }

    /// The name of the state in the output of the protocol.
    pub const fn name(self, protocol: Protocol) -> &'static str {
        match (self, protocol) {
            (PortState::Disabled, Protocol::Stp) => "disabled",
            (PortState::Disabled, Protocol::Rstp) => "Disabled",
            (PortState::Blocking, _) => "blocking",
            (PortState::Listening, _) => "listening",
            (PortState::Discarding, _) => "Discarding",
            (PortState::Learning, Protocol::Stp) => "learning",
            (PortState::Learning, Protocol::Rstp) => "Learning",
            (PortState::Forwarding, Protocol::Stp) => "forwarding",
            (PortState::Forwarding, Protocol::Rstp) => "Forwarding",
        }
    }
}

/// The spanning tree state of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortTreeState {
    /// The protocol of the port's bridge.
    pub protocol: Protocol,
    /// The state of the port.
    pub state: PortState,
}

impl PortTreeState {
    /// Whether BPDUs of other protocol entities, which the bridge forwards, may be sent through the port.
    pub const fn passes_bpdus(self) -> bool {
        !matches!(self.state, PortState::Blocking)
    }
}
