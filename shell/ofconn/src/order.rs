//! Messages between the main loop and the sockets: orders of the main loop, and news from the sockets.

use crate::backlog::Backlog;
use crate::batch::Batch;
use crate::packet_limit::PacketKind;
use crate::target::ConnKind;
use openflow::{Body, Dialect, Message, Version};
use std::fmt;
use std::sync::Arc;
use units::Millis;

/// Identifies a connection from its establishment to its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnId(pub u64);

/// An order of the main loop for one connection. Orders are carried out in their order.
#[derive(Debug)]
pub(crate) enum Order {
    /// Encode and send.
    Send(Message, Dialect),
    /// As `Send`, within the limits for packet-ins.
    PacketIn(PacketKind, Message, Dialect),
    /// Count a packet-in that was dropped before it came here.
    DroppedPacketIn(PacketKind),
    /// Send the parts of a long reply, each when the peer has read most of the previous ones. Other messages may be sent in between.
    Parts(Parts, Dialect),
}

impl Order {
    /// The estimated length of its message. [`Backlog`] counts the exact length after the message is encoded.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Order::Send(message, _) | Order::PacketIn(_, message, _) => bytes(&message.body),
            Order::DroppedPacketIn(_) | Order::Parts(..) => 0,
        }
    }
}

fn bytes(body: &Body) -> usize {
    /// Bytes of a message without a list, of an entry of a list or a bucket, and of the features of a table.
    const MESSAGE: usize = 64;
    const ENTRY: usize = 128;
    const TABLE: usize = 4096;
    match body {
        Body::EchoReply(data) => data.len(),
        Body::Error(error) => error.data.len(),
        Body::PacketIn(packet, _) => ENTRY + packet.packet.len(),
        Body::FlowRemoved(_) | Body::PortStatus(_) => ENTRY,
        Body::FlowStatsReply(list) => list.len() * ENTRY,
        Body::FlowMonitorReply(list) => list.len() * ENTRY,
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

/// The parts of a long reply, made one by one on the thread of the sockets.
pub struct Parts(Box<dyn FnMut(Millis) -> Option<Message> + Send>);

impl Parts {
    /// Parts that `next` makes, until it returns `None`. Each call gets the time.
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

/// From the sockets, about one connection.
#[derive(Debug)]
pub(crate) enum Event {
    /// A version was agreed on.
    Opened(Box<Opened>),
    /// Requests.
    Requests(Batch),
    /// All parts of a long reply are queued.
    PartsSent,
    /// It has ended; nothing about it follows.
    Closed,
}

/// A connection with an agreed version.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) kind: ConnKind,
    /// The target of a controller that we connect to.
    pub(crate) target: Option<String>,
    /// Its name in reports about flow mods.
    pub(crate) name: String,
    pub(crate) version: Version,
    /// It gets asynchronous messages by default.
    pub(crate) asynchronous: bool,
    pub(crate) backlog: Arc<Backlog>,
}
