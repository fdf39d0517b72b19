//! One OpenFlow connection without its socket: bytes in, messages out; messages in, bytes out.
//!
//! It sends the hello, negotiates the version, answers echo requests, and answers malformed messages with an error. All other
//! messages go to the caller. **Bounds**: a message has at most 64 KiB by its own length field; the caller limits the output queue: it
//! stops reading from a peer that does not read its replies.

use crate::asynchronous::{AsyncKind, AsyncMasks};
use crate::trace::{self, FlowModCounts};
use openflow::flow_mod::FlowCommand;
use openflow::message::{ErrorBody, Hello};
use openflow::packet_io::PacketInFormat;
use openflow::session::{Role, SwitchConfig, negotiate};
use openflow::table::TableFeatures;
use openflow::{Body, Dialect, Message, OfError, Version, VersionSet, Xid};
use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Write};
use transport::Outbox;
use units::Millis;

/// The state of the negotiation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionState {
    /// Waits for the hello of the peer.
    Hello,
    /// A version is agreed on.
    Open,
    /// Is closed once the output is written.
    Closing,
}

/// A bundle that a controller is filling (OpenFlow 1.4.1 §6.9). The switch executes its messages.
#[derive(Debug)]
pub struct OpenBundle {
    /// `openflow::session::bundle_flags`
    pub flags: u16,
    /// Closed: it takes no more messages.
    pub closed: bool,
    /// Its messages, in the switch's own form.
    pub messages: Box<dyn Any + Send>,
    /// An estimate of the bytes that its messages take.
    pub memory: usize,
    /// When it was last used.
    pub used: Millis,
    /// The request that opened it.
    pub request: Vec<u8>,
}

/// State of one connection.
#[derive(Debug)]
pub struct Session {
    /// Its name in the log.
    pub name: String,
    /// A client connected to the management socket; otherwise the configuration names the controller.
    pub service: bool,
    /// Its role.
    pub role: Role,
    /// The asynchronous messages it asked for.
    pub masks: AsyncMasks,
    /// The format of its packet-ins.
    pub packet_in_format: PacketInFormat,
    /// Packet-ins go to the controller whose id the action names.
    pub controller_id: u16,
    /// The last `SET_CONFIG`.
    pub config: SwitchConfig,
    /// Negotiated features besides the version.
    pub dialect: Dialect,
    /// It gets asynchronous messages by default.
    pub async_by_default: bool,
    /// Bundles are discarded after this time without use.
    pub bundle_idle: Millis,
    /// Bundles by number.
    pub bundles: BTreeMap<u32, OpenBundle>,
    /// Its next request waits for a long job of an earlier one. Probes are still answered.
    pub busy: bool,
    /// The first parts of a request to set table features.
    pub table_features: Vec<TableFeatures>,
    /// OpenFlow 1.0 with Nicira's flow format.
    pub nxm: bool,
    /// Messages read.
    pub received: u64,
    /// Messages written.
    pub sent: u64,
    pub(crate) flow_mods: FlowModCounts,
    state: SessionState,
    version: Version,
    offered: VersionSet,
    input: Vec<u8>,
    /// The request that waits.
    held: Option<(Message, Vec<u8>)>,
    /// Bytes of the input that have been processed.
    consumed: usize,
    output: Outbox,
    /// The ends of packet-ins that are not completely written, as offsets in the stream of all queued bytes.
    packet_ins: VecDeque<u64>,
    /// Copies of all messages for `ovs-ofctl snoop`, while one is connected.
    tap: Option<Vec<u8>>,
    next_xid: u32,
    failure: Option<String>,
}

/// Packets of this many bytes go to a configured controller on a miss until it says otherwise (OpenFlow 1.0 §5.2.3).
const MISS_SEND_LEN_DEFAULT: u16 = 128;
/// `other_config:bundle-idle-timeout` of the switch, where it is not set.
pub const BUNDLE_IDLE: Millis = Millis::from_secs(10);
/// Bytes of the refused message that an error carries: as many as fit beside its own fields.
const ERROR_DATA_MAX: usize = 0xffff - 24;

impl Session {
    /// A new connection. Its hello is already in the output.
    pub fn new(name: &str, service: bool, offered: VersionSet) -> Session {
        let newest = offered.newest().unwrap_or(Version::V10);
        let miss_send_len = if service { 0 } else { MISS_SEND_LEN_DEFAULT };
        let mut session = Session {
            name: name.to_owned(),
            service,
            role: Role::Equal,
            masks: AsyncMasks::default_for(newest),
            packet_in_format: PacketInFormat::Standard,
            controller_id: 0,
            config: SwitchConfig { miss_send_len, ..SwitchConfig::default() },
            dialect: Dialect::default(),
            async_by_default: true,
            nxm: false,
            bundle_idle: BUNDLE_IDLE,
            bundles: BTreeMap::new(),
            table_features: Vec::new(),
            flow_mods: FlowModCounts::default(),
            received: 0,
            sent: 0,
            state: SessionState::Hello,
            version: newest,
            offered,
            busy: false,
            held: None,
            input: Vec::new(),
            consumed: 0,
            output: Outbox::new(),
            packet_ins: VecDeque::new(),
            tap: None,
            next_xid: 1,
            failure: None,
        };
        let xid = session.allocate_xid();
        let hello = Hello { versions: offered, header_version: newest.wire() };
        session.send(&Message::new(newest, xid, Body::Hello(hello)));
        session
    }

    /// The state of the negotiation.
    pub fn state(&self) -> SessionState {
        self.state
    }

    /// The agreed version.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Why it is closed, for the log.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// A transaction of our own.
    pub fn allocate_xid(&mut self) -> Xid {
        let xid = Xid(self.next_xid);
        self.next_xid = self.next_xid.wrapping_add(1).max(1);
        xid
    }

    /// Takes bytes from the socket.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.input.drain(..self.consumed);
        self.consumed = 0;
        self.input.extend_from_slice(bytes);
    }

    /// Bytes received and not processed.
    pub fn backlog(&self) -> usize {
        self.input.len() - self.consumed
    }

    /// The number of bytes to write.
    pub fn output_len(&self) -> usize {
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
    pub(crate) fn send_packet_in(&mut self, message: &Message) {
        self.send(message);
        self.packet_ins.push_back(self.output.pushed());
    }

    /// Writes as much as the peer takes now.
    pub fn flush(&mut self, stream: &mut impl Write) -> io::Result<()> {
        self.output.flush(stream)
    }

    /// Starts or stops copying all messages.
    pub fn set_tap(&mut self, on: bool) {
        self.tap = on.then(Vec::new);
    }

    /// The copies since the last call.
    pub fn take_tap(&mut self) -> Vec<u8> {
        self.tap.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Queues encoded messages.
    pub fn send_raw(&mut self, bytes: &[u8]) {
        self.output.push(bytes);
    }

    /// Queues a message. A message that the version cannot express is not sent; flows that are too large for it are left out.
    pub fn send(&mut self, message: &Message) {
        let encoded = openflow::encode(message, self.dialect)
            .or_else(|e| trace::without_oversized(message, self.dialect).ok_or(e));
        for bytes in encoded.unwrap_or_default() {
            self.sent += 1;
            trace::sent(&self.name, &bytes);
            if let Some(tap) = self.tap.as_mut().filter(|_| self.state == SessionState::Open) {
                tap.extend_from_slice(&bytes);
            }
            self.output.push(&bytes);
        }
    }

    /// Queues an unsolicited message in the negotiated version, with a new transaction id if `xid` is none.
    pub fn send_own(&mut self, body: Body) {
        let message = Message::new(self.version, Xid(0), body);
        self.send(&message);
    }

    /// Records a flow mod of this connection.
    pub fn count_flow_mod(&mut self, command: FlowCommand, now: Millis) {
        self.flow_mods.count(command, now);
    }

    /// Queues a probe.
    pub fn send_echo(&mut self) {
        self.send_own(Body::EchoRequest(Vec::new()));
    }

    /// Whether the connection gets messages of this kind for this reason (OpenFlow 1.3.5 §6.3).
    ///
    /// A client of the management socket gets none until it asks for packets, so that tools which only query are not disturbed.
    pub fn wants(&self, kind: AsyncKind, reason: u8) -> bool {
        self.state == SessionState::Open
            && (!self.service || self.config.miss_send_len != 0)
            && self.masks.wants(self.role, kind, reason)
    }

    /// The next message that the caller must answer, with its bytes.
    pub fn next_message(&mut self) -> Option<(Message, Vec<u8>)> {
        if self.held.is_none() {
            self.held = self.read_message();
        }
        if self.busy { None } else { self.held.take() }
    }

    fn read_message(&mut self) -> Option<(Message, Vec<u8>)> {
        while self.state != SessionState::Closing {
            let rest = self.input.get(self.consumed..).unwrap_or_default();
            let frame = match openflow::next_frame(rest) {
                Ok(len) => match len.and_then(|n| rest.get(..n)) {
                    Some(frame) => frame.to_vec(),
                    None => return None,
                },
                Err(_) => {
                    self.fail("received message with an impossible length");
                    return None;
                }
            };
            self.consumed += frame.len();
            self.received += 1;
            trace::received(&self.name, &frame);
            if self.state == SessionState::Hello {
                self.on_first(&frame);
                continue;
            }
            if let Some(tap) = &mut self.tap {
                tap.extend_from_slice(&frame);
            }
            match openflow::decode(&frame, self.dialect) {
                Ok(message) => {
                    if let Some(message) = self.filter(message, &frame) {
                        return Some((message, frame));
                    }
                }
                Err(error) => self.send_error(error, &frame),
            }
        }
        None
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
                self.masks = match self.async_by_default {
                    true => AsyncMasks::default_for(version),
                    false => AsyncMasks::NONE,
                };
                self.state = SessionState::Open;
            }
            None => {
                let (ours, theirs) = (trace::versions(self.offered), trace::versions(hello.versions));
                let text = format!("We support {ours}, you support {theirs}, no common versions.");
                self.send_error(OfError::HfcIncompatible, text.as_bytes());
                self.fail(&format!("version negotiation failed (we support {ours}, peer supports {theirs})"));
            }
        }
    }

    /// Deals with what every connection deals with alone.
    fn filter(&mut self, message: Message, frame: &[u8]) -> Option<Message> {
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
                self.send(&message.reply(error_body(OfError::BrcBadVersion, frame)));
                None
            }
            _ => Some(message),
        }
    }

    /// Discards idle bundles and sends an error for each.
    pub fn expire_bundles(&mut self, now: Millis) {
        let is_old = |b: &OpenBundle| now.since(b.used) >= self.bundle_idle;
        let old: Vec<u32> = self.bundles.iter().filter(|(_, b)| is_old(b)).map(|(id, _)| *id).collect();
        for id in old {
            if let Some(bundle) = self.bundles.remove(&id) {
                self.send_error(OfError::BfcTimeout, &bundle.request);
            }
        }
    }

    /// When the next bundle expires.
    pub fn next_bundle_deadline(&self) -> Option<Millis> {
        self.bundles.values().map(|b| b.used + self.bundle_idle).min()
    }

    /// Answers the request in `frame` with an error.
    pub fn send_error(&mut self, error: OfError, frame: &[u8]) {
        let xid = match frame.get(4..8) {
            Some(b) if self.state == SessionState::Open => u32::from_be_bytes([b[0], b[1], b[2], b[3]]),
            _ => 0,
        };
        let message = Message::new(self.version, Xid(xid), error_body(error, frame));
        self.send(&message);
    }

    fn fail(&mut self, why: &str) {
        self.failure = Some(why.to_owned());
        self.state = SessionState::Closing;
    }
}

/// An error message that answers the request in `data`.
pub fn error_body(error: OfError, data: &[u8]) -> Body {
    let data = &data[..data.len().min(ERROR_DATA_MAX)];
    Body::Error(ErrorBody { error: Some(error), wire: (0, 0), data: data.to_vec() })
}
