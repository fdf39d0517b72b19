//! Packets to and from the controller.

use crate::action::Action;
use flow::Match;
use units::OfPort;

/// Reason of a packet-in (`OFPR_*`), with OpenFlow 1.4's numbers.
#[repr(u8)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PacketInReason {
    /// No flow matched.
    #[default]
    NoMatch = 0,
    /// An output action sent the packet.
    Action = 1,
    /// The TTL expired.
    InvalidTtl = 2,
    /// An action of the action set sent the packet (1.4).
    ActionSet = 3,
    /// A bucket of a group sent the packet (1.4).
    Group = 4,
    /// An action of a packet-out sent the packet (1.4).
    PacketOut = 5,
    /// The table-miss flow matched: "no match" in 1.3 and later, "action" before.
    ExplicitMiss = 6,
    /// No flow matched, not even a table-miss flow: "no match" on the wire.
    ImplicitMiss = 7,
}

/// Format of packet-ins on a connection.
#[repr(u8)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PacketInFormat {
    /// The standard's format.
    #[default]
    Standard = 0,
    /// `NXT_PACKET_IN`
    Nxt = 1,
    /// `NXT_PACKET_IN2`
    Nxt2 = 2,
}

/// A packet sent to the controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketIn {
    /// The packet, truncated to the length to send.
    pub packet: Vec<u8>,
    /// Full length of the packet in bytes.
    pub total_len: u32,
    /// Id of the packet in the switch's buffer; `NO_BUFFER`: not buffered.
    pub buffer_id: u32,
    /// Reason.
    pub reason: PacketInReason,
    /// Table of the flow that sent the packet.
    pub table: u8,
    /// Cookie of the flow that sent the packet; all ones: none.
    pub cookie: u64,
    /// Metadata: in port, tunnel, registers.
    pub metadata: Match,
    /// `userdata` of the controller action (`NXT_PACKET_IN2`).
    pub userdata: Vec<u8>,
    /// State of a paused translation (`NXT_PACKET_IN2`), opaque to the controller, which returns it in a resume message.
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

/// A packet sent by the controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketOut {
    /// Id of a buffered packet to use instead of `packet`.
    pub buffer_id: u32,
    /// Metadata: always the in_port; from OpenFlow 1.5 on also other pipeline fields.
    pub metadata: Match,
    /// Actions.
    pub actions: Vec<Action>,
    /// The packet.
    pub packet: Vec<u8>,
}

impl PacketOut {
    /// The in_port to assume for the packet.
    pub fn in_port(&self) -> OfPort {
        OfPort(self.metadata.flow.in_port as u16)
    }
}
