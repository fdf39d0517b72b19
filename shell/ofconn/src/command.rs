//! Commands of the main loop to the sockets, and events that the sockets report to the main loop.

use crate::batch::Batch;
use crate::packet_limit::PacketKind;
use crate::waiting_bytes::WaitingBytes;
use openflow::{Body, Dialect, Message, Version};
use std::fmt;
use std::sync::Arc;
use units::Millis;

/// Identifies a connection from its establishment to its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnId(pub u64);

/// A command of the main loop for one connection. Commands are carried out in the sequence in which they were issued.
#[derive(Debug)]
pub(crate) enum Command {
    /// Encode and send a message.
    Send(Message, Dialect),
    /// Encode and send a packet-in, within the limits for packet-ins.
    PacketIn(PacketKind, Message, Dialect),
    /// Count a packet-in that the session dropped.
    DroppedPacketIn(PacketKind),
    /// Send the parts of a long reply. Each part is made when most of the previous ones are written. Which messages may be sent in
    /// between: see `long_reply.rs`.
    Parts(Parts, Dialect),
}

impl Command {
    /// The estimated length of the message in bytes. [`WaitingBytes`] counts the exact length after the message is encoded.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Command::Send(message, _) | Command::PacketIn(_, message, _) => bytes(&message.body),
            Command::DroppedPacketIn(_) | Command::Parts(..) => 0,
        }
    }
}

/// The estimated length of a message in bytes.
fn bytes(body: &Body) -> usize {
    /// Bytes of a message without a list.
    const MESSAGE: usize = 64;
    /// Bytes of a list entry or a bucket.
    const ENTRY: usize = 128;
    /// Bytes of an action.
    const ACTION: usize = 16;
    /// Bytes of the features of a table.
    const TABLE: usize = 4096;
    match body {
        Body::EchoReply(data) => data.len(),
        Body::Error(error) => error.data.len(),
        Body::PacketIn(packet, _) => ENTRY + packet.packet.len(),
        Body::FlowRemoved(_) | Body::PortStatus(_) => ENTRY,
        Body::FlowStatsReply(list) => list.len() * ENTRY,
        Body::FlowMonitorReply(list) => list.iter().map(|u| ENTRY + u.actions_len() * ACTION).sum(),
        Body::PortStatsReply(list) => list.len() * ENTRY,
        Body::PortDescReply(list) => list.len() * ENTRY,
        Body::FeaturesReply(features) => features.ports.len() * ENTRY,
        Body::QueueStatsReply(list) => list.len() * ENTRY,
        Body::QueueConfigReply(_, list) => list.len() * ENTRY,
        Body::TableStatsReply(list) => list.len() * ENTRY,
        Body::TableFeaturesReply(list) => list.len() * TABLE,
        Body::TableDescReply(list) => list.len() * MESSAGE,
        Body::GroupStatsReply(list) => list.iter().map(|g| ENTRY + g.buckets.len() * 16).sum(),
        Body::GroupDescReply(list) => list.iter().map(|g| (1 + g.buckets.len()) * ENTRY).sum(),
        Body::MeterStatsReply(list) => list.len() * ENTRY,
        Body::IpfixFlowReply(list) => list.len() * ENTRY,
        Body::MeterConfigReply(list) => list.len() * ENTRY,
        _ => MESSAGE,
    }
}

/// Generator of the parts of a long reply. It runs on the thread of the sockets.
pub struct Parts(Box<dyn FnMut(Millis) -> Option<Message> + Send>);

impl Parts {
    /// Creates a generator that calls `next` with the current time for each part, until `next` returns `None`.
    pub fn new(next: impl FnMut(Millis) -> Option<Message> + Send + 'static) -> Parts {
        Parts(Box::new(next))
    }

    pub(crate) fn next(&mut self, now: Millis) -> Option<Message> {
        (self.0)(now)
    }
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Parts")
    }
}

/// An event of one connection, reported by the sockets.
#[derive(Debug)]
pub(crate) enum Event {
    /// Version negotiation has succeeded.
    Opened(Box<OpenedConn>),
    /// Requests have arrived.
    Requests(Batch),
    /// All parts of a long reply are encoded and queued.
    PartsSent,
    /// The connection has ended; no event of this connection follows.
    Closed,
}

/// Data of a newly opened connection, from which the main loop creates the session.
#[derive(Debug)]
pub(crate) struct OpenedConn {
    /// The target, if the switch opened the connection.
    pub(crate) target: Option<String>,
    /// The name of the connection in reports about flow mods.
    pub(crate) name: String,
    pub(crate) version: Version,
    /// Whether the connection gets asynchronous messages by default.
    pub(crate) asynchronous: bool,
    pub(crate) waiting_bytes: Arc<WaitingBytes>,
}
