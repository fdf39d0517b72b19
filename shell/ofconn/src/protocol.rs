//! Protocol state of one OpenFlow connection, without its socket: decodes received bytes into requests, encodes messages into output.
//!
//! A [`ProtocolState`] sends the hello, negotiates the version and answers echo requests. All other messages go to the session.
//! **Bounds**: a message has at most 64 KiB, because its length field has 16 bits. The owner limits the output queue: it stops reading
//! from a peer that does not read its replies.

use crate::batch::{BatchBuilder, Incoming};
use crate::message_log;
use crate::request_content::Content;
use crate::waiting_bytes::OUTPUT_MAX;
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
    /// The hello of the peer has not arrived.
    Hello,
    /// Version negotiation has succeeded.
    Open,
    /// The peer has violated the protocol, or no common version exists; the owner closes the connection after its next write.
    Closing,
}

/// State of one connection.
#[derive(Debug)]
pub(crate) struct ProtocolState {
    /// Name of the connection in the log.
    pub(crate) name: String,
    /// Negotiated variants of the wire format, for decoding received messages.
    dialect: Dialect,
    state: State,
    version: Version,
    offered: VersionSet,
    input: Vec<u8>,
    /// Bytes at the beginning of `input` that have been processed.
    consumed: usize,
    output: Outbox,
    /// End of each packet-in that is not completely written, as an offset in the stream of all bytes queued so far.
    packet_ins: VecDeque<u64>,
    /// Copies of all messages for `ovs-ofctl snoop`; `None` while no snooper is connected.
    snoop_copies: Option<Vec<u8>>,
    failure: Option<String>,
}

/// Bytes of the refused message that an error message carries. The length field allows 65535 bytes; 24 are left for headers.
const ERROR_DATA_MAX: usize = 0xffff - 24;

impl ProtocolState {
    /// A new connection. Its hello is already in the output.
    pub(crate) fn new(name: &str, offered: VersionSet, debug_actions: bool) -> ProtocolState {
        let newest = offered.newest().unwrap_or(Version::V10);
        let mut protocol = ProtocolState {
            name: name.to_owned(),
            dialect: Dialect { debug_actions, ..Dialect::default() },
            state: State::Hello,
            version: newest,
            offered,
            input: Vec::new(),
            consumed: 0,
            output: Outbox::new(),
            packet_ins: VecDeque::new(),
            snoop_copies: None,
            failure: None,
        };
        let hello = Hello { versions: offered, header_version: newest.wire() };
        protocol.send(&Message::new(newest, Xid(1), Body::Hello(hello)));
        protocol
    }

    /// Whether the state is [`State::Open`].
    pub(crate) fn is_open(&self) -> bool {
        self.state == State::Open
    }

    /// The agreed version.
    pub(crate) fn version(&self) -> Version {
        self.version
    }

    /// Why the connection has to be closed, for the log.
    pub(crate) fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Adds bytes that were read from the socket.
    pub(crate) fn receive(&mut self, bytes: &[u8]) {
        self.input.drain(..self.consumed);
        self.consumed = 0;
        self.input.extend_from_slice(bytes);
    }

    /// The number of bytes received and not processed.
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

    /// The number of packet-ins that are not completely written.
    pub(crate) fn waiting_packet_ins(&mut self) -> usize {
        let written = self.output.written();
        while self.packet_ins.front().is_some_and(|end| *end <= written) {
            self.packet_ins.pop_front();
        }
        self.packet_ins.len()
    }

    /// Queues a packet-in.
    pub(crate) fn send_packet_in(&mut self, message: &Message, dialect: Dialect) {
        self.send_in_dialect(message, dialect);
        self.packet_ins.push_back(self.output.pushed());
    }

    /// Writes as much output as the socket accepts now.
    pub(crate) fn flush(&mut self, stream: &mut impl Write) -> io::Result<()> {
        self.output.flush(stream)
    }

    /// Starts or stops copying all messages.
    pub(crate) fn set_snooped(&mut self, on: bool) {
        self.snoop_copies = on.then(Vec::new);
    }

    /// Copies of the messages since the last call.
    pub(crate) fn take_snoop_copies(&mut self) -> Vec<u8> {
        self.snoop_copies.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Queues encoded messages.
    pub(crate) fn send_raw(&mut self, bytes: &[u8]) {
        self.output.push(bytes);
    }

    /// Queues a message that is created here and not by the session (hello, echo).
    fn send(&mut self, message: &Message) {
        self.send_in_dialect(message, self.dialect);
    }

    /// Queues a message. A message that the version cannot express is not sent; flows that are too large for it are left out.
    pub(crate) fn send_in_dialect(&mut self, message: &Message, dialect: Dialect) {
        let encoded = openflow::encode(message, dialect)
            .or_else(|e| message_log::without_oversized(message, dialect).ok_or(e));
        for bytes in encoded.unwrap_or_default() {
            message_log::sent(&self.name, &bytes);
            if let Some(copies) = self.snoop_copies.as_mut().filter(|_| self.state == State::Open) {
                copies.extend_from_slice(&bytes);
            }
            self.output.push(&bytes);
        }
    }

    /// Queues an echo request, which probes whether the peer is alive.
    pub(crate) fn send_echo(&mut self) {
        self.send(&Message::new(self.version, Xid(0), Body::EchoRequest(Vec::new())));
    }

    /// Negotiates the version if the peer's hello has arrived and was not processed yet.
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

    /// Adds requests to `batch` until it has `count` requests or `memory` bytes. Echo requests between them are answered.
    pub(crate) fn decode(
        &mut self,
        batch: &mut BatchBuilder,
        preparer: &mut Preparer,
        (count, memory): (usize, usize),
    ) {
        // Frames borrow the input, so it is moved out of `self` meanwhile; `receive` cannot run during this call.
        let input = std::mem::take(&mut self.input);
        while self.state == State::Open
            && batch.len() < count
            && batch.memory() < memory
            && self.output_len() < OUTPUT_MAX
            && let Some(frame) = self.next_frame(&input)
        {
            if let Some(copies) = &mut self.snoop_copies {
                copies.extend_from_slice(frame);
            }
            let incoming = match openflow::decode(frame, self.dialect) {
                Ok(message) => self.filter(message, frame, preparer),
                Err(error) => Some(Incoming::Refused(Box::new(error_message(self.version, error, frame)))),
            };
            incoming.into_iter().for_each(|incoming| batch.push(incoming, frame));
        }
        self.input = input;
    }

    /// Discards the messages that have arrived; echo requests are still answered.
    pub(crate) fn ignore_messages(&mut self) {
        let mut ignored = BatchBuilder::default();
        self.decode(&mut ignored, &mut Preparer::default(), (usize::MAX, usize::MAX));
    }

    /// The bytes of the next message in `input`.
    fn next_frame<'a>(&mut self, input: &'a [u8]) -> Option<&'a [u8]> {
        let rest = input.get(self.consumed..).unwrap_or_default();
        let Ok(len) = openflow::message_len(rest) else {
            self.fail("received message with an impossible length");
            return None;
        };
        let frame = rest.get(..len?)?;
        self.consumed += frame.len();
        message_log::received(&self.name, frame);
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
                message_log::negotiated(&self.name, version, self.offered, hello.versions);
                self.version = version;
                self.state = State::Open;
            }
            None => {
                let (ours, theirs) =
                    (message_log::versions(self.offered), message_log::versions(hello.versions));
                let text = format!("We support {ours}, you support {theirs}, no common versions.");
                let error = error_body(OfError::HfcIncompatible, text.as_bytes());
                self.send(&Message::new(self.version, Xid(0), error));
                self.fail(&format!("version negotiation failed (we support {ours}, peer supports {theirs})"));
            }
        }
    }

    /// Answers echo requests and discards hellos and echo replies. Returns all other messages for the session.
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
                    // This message changes the format of the flow mods that follow.
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
    Body::Error(ErrorBody { error: Some(error), type_and_code: (0, 0), data: data.to_vec() })
}
