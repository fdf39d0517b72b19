//! Asynchronous messages of the switch to the connections that subscribed to them.
//!
//! A packet-in contains the complete packet regardless of `max_len` and `miss_send_len`, because the switch does not buffer packets.
//! Open vSwitch does the same since it removed buffers.

use crate::asynchronous::AsyncKind;
use crate::command::ConnId;
use crate::connections::Connections;
use crate::packet_limit::PacketKind;
use openflow::flow_mod::FlowRemoved;
use openflow::packet_io::{PacketIn, PacketInFormat};
use openflow::port::{Port, PortReason, PortStatus};
use openflow::table::TableStatus;
use openflow::{Body, Continuation, Message, Version, Xid};

/// A packet for controllers.
#[derive(Clone, Debug)]
pub struct PacketInEvent {
    /// Only connections with this controller id get the packet.
    pub controller_id: u16,
    /// The message, with the complete packet.
    pub message: PacketIn,
    /// State of a paused packet. Controllers that use `NXT_PACKET_IN2` get this state and can resume the packet with it.
    pub continuation: Option<Continuation>,
}

impl Connections {
    /// Sends a packet to its subscribers, subject to the packet-in limits of each connection. Returns the number of subscribers.
    pub fn send_packet_in(&mut self, event: &PacketInEvent) -> usize {
        let reason = event.message.reason as u8;
        let mut sent = 0;
        for (_, session) in self.sessions() {
            if session.controller_id == event.controller_id && session.wants(AsyncKind::PacketIn, reason) {
                let format = session.packet_in_format;
                let mut message = event.message.clone();
                if let (PacketInFormat::Nxt2, Some(continuation)) = (format, &event.continuation) {
                    message.continuation = continuation.encode(session.version());
                }
                let body = Body::PacketIn(Box::new(message), format);
                let message = Message::new(session.version(), Xid(0), body);
                session.send_packet_in(PacketKind::from_reason(event.message.reason), message);
                sent += 1;
            }
        }
        sent
    }

    /// Reports that a port was added, removed or changed. `old` is the port before a change; a connection in whose version the old and the
    /// new port have the same encoding gets no message. `source` is the connection that caused the change; before OpenFlow 1.5 that
    /// connection gets no message.
    pub fn send_port_status(
        &mut self,
        reason: PortReason,
        port: &Port,
        old: Option<&Port>,
        source: Option<ConnId>,
    ) {
        for (id, session) in self.sessions() {
            let own = source == Some(id) && session.version() < Version::V15;
            if own || !session.wants(AsyncKind::PortStatus, reason as u8) {
                continue;
            }
            let version = session.version();
            let message = |port: &Port| {
                let status = PortStatus { reason, port: port.clone() };
                Message::new(version, Xid(0), Body::PortStatus(status))
            };
            let new = message(port);
            let dialect = session.dialect;
            let bytes = |m: &Message| openflow::encode(m, dialect);
            let unchanged = old.is_some_and(|old| bytes(&message(old)) == bytes(&new));
            if !unchanged {
                session.send(new);
            }
        }
    }

    /// Reports a change of a table's vacancy.
    pub fn send_table_status(&mut self, status: &TableStatus) {
        for (_, session) in self.sessions() {
            if session.wants(AsyncKind::TableStatus, status.reason) {
                session.send_unsolicited(Body::TableStatus(*status));
            }
        }
    }

    /// Reports that a flow was removed.
    pub fn send_flow_removed(&mut self, removed: &FlowRemoved) {
        for (_, session) in self.sessions() {
            if session.wants(AsyncKind::FlowRemoved, removed.reason as u8) {
                let body = Body::FlowRemoved(Box::new(removed.clone()));
                let extended = session.nxm;
                session.send(Message { extended, ..Message::new(session.version(), Xid(0), body) });
            }
        }
    }
}
