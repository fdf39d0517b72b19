//! One OpenFlow connection without its socket, on the side of the sockets: bytes in, requests out; messages in, bytes out.
//!
//! It sends the hello, negotiates the version and answers echo requests. All other messages go to the session. **Bounds**: a message
//! has at most 64 KiB by its own length field; the owner limits the output queue: it stops reading from a peer that does not read its
//! replies.

use crate::backlog::OUTPUT_MAX;
use crate::batch::{Filling, Incoming};
use crate::request::Content;
use crate::trace;
use ofproto::Preparer;
use openflow::message::{ErrorBody, Hello};
use openflow::session::negotiate;
use openflow::{Body, Dialect, Message, OfError, Version, VersionSet, Xid};
use std::collections::VecDeque;
use std::io::{self, Write};
use transport::Outbox;

/// The state of the negotiation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Waits for the hello of the peer.
    Hello,
    /// A version is agreed on.
    Open,
    /// Is closed once the output is written.
    Closing,
}

/// State of one connection.
#[derive(Debug)]
pub(crate) struct Channel {
    /// Its name in the log.
    pub(crate) name: String,
    /// How bytes that it receives are to be read.
    dialect: Dialect,
    state: State,
    version: Version,
    offered: VersionSet,
    input: Vec<u8>,
    /// Bytes of the input that have been processed.
    consumed: usize,
    output: Outbox,
    /// The ends of packet-ins that are not completely written, as offsets in the stream of all queued bytes.
    packet_ins: VecDeque<u64>,
    /// Copies of all messages for `ovs-ofctl snoop`, while one is connected.
    tap: Option<Vec<u8>>,
    failure: Option<String>,
}

/// Bytes of the refused message that an error carries: as many as fit beside its own fields.
const ERROR_DATA_MAX: usize = 0xffff - 24;

impl Channel {
    /// A new connection. Its hello is already in the output.
    pub(crate) fn new(name: &str, offered: VersionSet, debug_actions: bool) -> Channel {
        let newest = offered.newest().unwrap_or(Version::V10);
        let mut channel = Channel {
            name: name.to_owned(),
            dialect: Dialect { debug_actions, ..Dialect::default() },
            state: State::Hello,
            version: newest,
            offered,
            input: Vec::new(),
            consumed: 0,
            output: Outbox::new(),
            packet_ins: VecDeque::new(),
            tap: None,
            failure: None,
        };
        let hello = Hello { versions: offered, header_version: newest.wire() };
        channel.send(&Message::new(newest, Xid(1), Body::Hello(hello)));
        channel
    }

    /// Whether the state is [`State::Open`].
    pub(crate) fn is_open(&self) -> bool {
        self.state == State::Open
    }

    /// The agreed version.
    pub(crate) fn version(&self) -> Version {
        self.version
    }

    /// Why it is closed, for the log.
    pub(crate) fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Takes bytes from the socket.
    pub(crate) fn receive(&mut self, bytes: &[u8]) {
        self.input.drain(..self.consumed);
        self.consumed = 0;
        self.input.extend_from_slice(bytes);
    }

    /// Bytes received and not processed.
    pub(crate) fn backlog(&self) -> usize {
        self.input.len() - self.consumed
    }

    /// The number of bytes to write.
    pub(crate) fn output_len(&self) -> usize {
        self.output.len()
    }

    /// The bytes to write.
    pub(crate) fn output(&self) -> &Outbox {
        &self.output
    }

    /// Packet-ins that are not completely written.
    pub(crate) fn waiting_packet_ins(&mut self) -> usize {
        let written = self.output.written();
        while self.packet_ins.front().is_some_and(|end| *end <= written) {
            self.packet_ins.pop_front();
        }
        self.packet_ins.len()
    }

    /// Queues a packet-in.
    pub(crate) fn send_packet_in(&mut self, message: &Message, dialect: Dialect) {
        self.send_in(message, dialect);
        self.packet_ins.push_back(self.output.pushed());
    }

    /// Writes as much as the peer takes now.
    pub(crate) fn flush(&mut self, stream: &mut impl Write) -> io::Result<()> {
        self.output.flush(stream)
    }

    /// Starts or stops copying all messages.
    pub(crate) fn set_tap(&mut self, on: bool) {
        self.tap = on.then(Vec::new);
    }

    /// The copies since the last call.
    pub(crate) fn take_tap(&mut self) -> Vec<u8> {
        self.tap.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Queues encoded messages.
    pub(crate) fn send_raw(&mut self, bytes: &[u8]) {
        self.output.push(bytes);
    }

    /// Queues a message of the channel itself.
    fn send(&mut self, message: &Message) {
        self.send_in(message, self.dialect);
    }

    /// Queues a message. A message that the version cannot express is not sent; flows that are too large for it are left out.
    pub(crate) fn send_in(&mut self, message: &Message, dialect: Dialect) {
        let encoded = openflow::encode(message, dialect)
            .or_else(|e| trace::without_oversized(message, dialect).ok_or(e));
        for bytes in encoded.unwrap_or_default() {
            trace::sent(&self.name, &bytes);
            if let Some(tap) = self.tap.as_mut().filter(|_| self.state == State::Open) {
                tap.extend_from_slice(&bytes);
            }
            self.output.push(&bytes);
        }
    }

    /// Queues a probe.
    pub(crate) fn send_echo(&mut self) {
        self.send(&Message::new(self.version, Xid(0), Body::EchoRequest(Vec::new())));
    }

    /// Negotiates the version if that is not done and the peer's hello has arrived.
    pub(crate) fn open(&mut self) {
        if self.state != State::Hello {
            return;
        }
        let input = std::mem::take(&mut self.input);
        if let Some(frame) = self.next_frame(&input) {
            self.on_first(frame);
        }
        self.input = input;
    }

    /// Adds messages for the session, until there are `count` or they take `memory` bytes. Echo requests between them are answered.
    pub(crate) fn decode(
        &mut self,
        batch: &mut Filling,
        preparer: &mut Preparer,
        (count, memory): (usize, usize),
    ) {
        // Messages are read where they are; meanwhile nothing is received.
        let input = std::mem::take(&mut self.input);
        while self.state == State::Open
            && batch.len() < count
            && batch.memory() < memory
            && self.output_len() < OUTPUT_MAX
            && let Some(frame) = self.next_frame(&input)
        {
            if let Some(tap) = &mut self.tap {
                tap.extend_from_slice(frame);
            }
            let incoming = match openflow::decode(frame, self.dialect) {
                Ok(message) => self.filter(message, frame, preparer),
                Err(error) => Some(Incoming::Refused(Box::new(error_message(self.version, error, frame)))),
            };
            incoming.into_iter().for_each(|incoming| batch.push(incoming, frame));
        }
        self.input = input;
    }

    /// Ignores messages that have arrived.
    pub(crate) fn ignore_messages(&mut self) {
        let mut ignored = Filling::default();
        self.decode(&mut ignored, &mut Preparer::default(), (usize::MAX, usize::MAX));
    }

    /// The bytes of the next message in `input`.
    fn next_frame<'a>(&mut self, input: &'a [u8]) -> Option<&'a [u8]> {
        let rest = input.get(self.consumed..).unwrap_or_default();
        let Ok(len) = openflow::next_frame(rest) else {
            self.fail("received message with an impossible length");
            return None;
        };
        let frame = rest.get(..len?)?;
        self.consumed += frame.len();
        trace::received(&self.name, frame);
        Some(frame)
    }

    /// The first message must be a hello (OpenFlow 1.3.5 §6.3.1).
    fn on_first(&mut self, frame: &[u8]) {
        let hello = match openflow::decode(frame, self.dialect) {
            Ok(Message { body: Body::Hello(hello), .. }) => hello,
            _ => {
                self.fail("received a message that is not a hello before version negotiation");
                return;
            }
        };
        match negotiate(self.offered, hello.versions) {
            Some(version) => {
                trace::negotiated(&self.name, version, self.offered, hello.versions);
                self.version = version;
                self.state = State::Open;
            }
            None => {
                let (ours, theirs) = (trace::versions(self.offered), trace::versions(hello.versions));
                let text = format!("We support {ours}, you support {theirs}, no common versions.");
                let error = error_body(OfError::HfcIncompatible, text.as_bytes());
                self.send(&Message::new(self.version, Xid(0), error));
                self.fail(&format!("version negotiation failed (we support {ours}, peer supports {theirs})"));
            }
        }
    }

    /// Deals with what every connection deals with alone.
    fn filter(&mut self, message: Message, frame: &[u8], preparer: &mut Preparer) -> Option<Incoming> {
        match message.body {
            Body::Hello(_) | Body::EchoReply(_) => None,
            Body::EchoRequest(ref data) => {
                let reply = message.reply(Body::EchoReply(data.clone()));
                self.send(&reply);
                None
            }
            // A peer may use another version in a message only before the versions are agreed on.
            _ if message.version != self.version && !matches!(message.body, Body::Error(_)) => {
                // Answer in the version of the message.
                Some(Incoming::Refused(Box::new(message.reply(error_body(OfError::BrcBadVersion, frame)))))
            }
            ref body => {
                if let Body::FlowModTableId(on) = body {
                    // It changes how the next message is read.
                    self.dialect.flow_mod_table_id = *on;
                }
                let (version, xid) = (message.version, message.xid);
                Some(Incoming::Request(version, xid, Content::new(message, self.dialect, preparer)))
            }
        }
    }

    fn fail(&mut self, why: &str) {
        self.failure = Some(why.to_owned());
        self.state = State::Closing;
    }
}

/// The error that answers the request in `frame`.
pub(crate) fn error_message(version: Version, error: OfError, frame: &[u8]) -> Message {
    let xid = frame.get(4..8).and_then(|b| b.first_chunk()).map_or(0, |b| u32::from_be_bytes(*b));
    Message::new(version, Xid(xid), error_body(error, frame))
}

/// An error message that answers the request in `data`.
pub fn error_body(error: OfError, data: &[u8]) -> Body {
    let data = &data[..data.len().min(ERROR_DATA_MAX)];
    Body::Error(ErrorBody { error: Some(error), wire: (0, 0), data: data.to_vec() })
}
