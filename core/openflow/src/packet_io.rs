//! Packets to and from the controller.

use crate::action::Action;
use flow::Match;
use units::OfPort;

/// Why a packet came to the controller (`OFPR_*`), in OpenFlow 1.4's numbers.
#[repr(u8)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PacketInReason {
    /// No flow matched.
    #[default]
    NoMatch = 0,
    /// An action sent it.
    Action = 1,
    /// Its TTL ended.
    InvalidTtl = 2,
    /// An action of the action set (1.4).
    ActionSet = 3,
    /// A bucket of a group (1.4).
    Group = 4,
    /// A packet-out (1.4).
    PacketOut = 5,
    /// No flow matched but the table-miss flow: "no match" on the wire of 1.3, "action" before it.
    ExplicitMiss = 6,
    /// The implicit miss of a table: "no match" on the wire.
    ImplicitMiss = 7,
}

/// The form in which a connection wants its packet-ins.
#[repr(u8)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PacketInFormat {
    /// That of the standard.
    #[default]
    Standard = 0,
    /// `NXT_PACKET_IN`
    Nxt = 1,
    /// `NXT_PACKET_IN2`
    Nxt2 = 2,
}

/// A packet for the controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketIn {
    /// The packet, already cut to what is to be sent.
    pub packet: Vec<u8>,
    /// How long it was.
    pub total_len: u32,
    /// The switch keeps it; `NO_BUFFER` if it does not.
    pub buffer_id: u32,
    /// Why.
    pub reason: PacketInReason,
    /// The table that sent it.
    pub table: u8,
    /// The cookie of the flow that sent it; all ones is none.
    pub cookie: u64,
    /// Metadata: in port, tunnel, registers.
    pub metadata: Match,
    /// From the controller action (`NXT_PACKET_IN2`).
    pub userdata: Vec<u8>,
    /// What to hand back in a resume (`NXT_PACKET_IN2`): opaque to the controller.
    pub continuation: Vec<u8>,
}

impl Default for PacketIn {
    fn default() -> PacketIn {
        PacketIn {
            packet: Vec::new(),
            total_len: 0,
            buffer_id: crate::flow_mod::NO_BUFFER,
            reason: PacketInReason::NoMatch,
            table: 0,
            cookie: u64::MAX,
            metadata: Match::CATCHALL,
            userdata: Vec::new(),
            continuation: Vec::new(),
        }
    }
}

/// A packet from the controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketOut {
    /// A packet that the switch keeps, instead of `packet`.
    pub buffer_id: u32,
    /// Metadata: in port always, other pipeline fields from OpenFlow 1.5.
    pub metadata: Match,
    /// What to do with it.
    pub actions: Vec<Action>,
    /// The packet.
    pub packet: Vec<u8>,
}

impl PacketOut {
    /// The port that it is as if it had come in by.
    pub fn in_port(&self) -> OfPort {
        OfPort(self.metadata.flow.in_port as u16)
    }
}
