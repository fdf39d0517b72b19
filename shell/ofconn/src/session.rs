//! One OpenFlow connection without its socket: bytes in, messages out; messages in, bytes out.
//!
//! It says hello, agrees on a version, answers echoes and answers messages that cannot be read with the error they
//! deserve. What is left goes to the caller. **Bounds**: a message has at most 64 KiB by its own length field; the
//! output queue is limited by the caller, who stops reading from a peer that does not take its replies.

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

/// How far a connection has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionState {
    /// No hello of the peer yet.
    Hello,
    /// A version is agreed on.
    Open,
    /// To be closed once the output is written.
    Closing,
}

/// A bundle that a controller is filling (OpenFlow 1.4.1 §6.9). What the messages do is the switch's business.
#[derive(Debug)]
pub struct OpenBundle {
    /// `openflow::session::bundle_flags`
    pub flags: u16,
    /// No more messages.
    pub closed: bool,
    /// Its messages, in the switch's own form.
    pub messages: Box<dyn Any + Send>,
    /// About how many bytes its messages take.
    pub memory: usize,
    /// When it was last used.
    pub used: Millis,
    /// The request that opened it.
    pub request: Vec<u8>,
}

/// State of one connection.
#[derive(Debug)]
pub struct Session {
    /// Shown in the log.
    pub name: String,
    /// Made by somebody who connected to us (management socket), not by the configuration.
    pub service: bool,
    /// Its role.
    pub role: Role,
    /// What it wants to hear.
    pub masks: AsyncMasks,
    /// How it wants packet-ins.
    pub packet_in_format: PacketInFormat,
    /// Packet-ins go to the controller whose id the action names.
    pub controller_id: u16,
    /// What `SET_CONFIG` said.
    pub config: SwitchConfig,
    /// What it agreed on besides its version.
    pub dialect: Dialect,
    /// Gets asynchronous messages without asking.
    pub async_by_default: bool,
    /// A bundle that is not used for so long is forgotten.
    pub bundle_idle: Millis,
    /// Bundles by number.
    pub bundles: BTreeMap<u32, OpenBundle>,
    /// Its next request waits: something that came before takes long. Probes are answered all the same.
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
    /// So much of the input is dealt with.
    consumed: usize,
    output: Outbox,
    /// Where the packet-ins end that are not all written, as counts of all bytes that were ever queued.
    packet_ins: VecDeque<u64>,
    /// Copies of all messages, while somebody snoops.
    tap: Option<Vec<u8>>,
    next_xid: u32,
    failure: Option<String>,
}

/// Packets of this many bytes go to a configured controller on a miss until it says otherwise (OpenFlow 1.0 §5.2.3).
const MISS_SEND_LEN_DEFAULT: u16 = 128;
/// `other_config:bundle-idle-timeout` of the switch, where it is not set.
pub const BUNDLE_IDLE: Millis = Millis::from_secs(10);
/// An error carries the message that it answers; so much of it fits along with the error's own fields.
const ERROR_DATA_MAX: usize = 0xffff - 24;

impl Session {
    /// A new connection, whose hello is already in the output.
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

    /// How far it has got.
    pub fn state(&self) -> SessionState {
        self.state
    }

    /// The agreed version.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Why it is to be closed, for the log.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// A transaction of our own.
    pub fn allocate_xid(&mut self) -> Xid {
        let xid = Xid(self.next_xid);
        self.next_xid = self.next_xid.wrapping_add(1).max(1);
        xid
    }

    /// Takes what the socket brought.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.input.drain(..self.consumed);
        self.consumed = 0;
        self.input.extend_from_slice(bytes);
    }

    /// Bytes received and not dealt with.
    pub fn backlog(&self) -> usize {
        self.input.len() - self.consumed
    }

    /// Bytes that are to be written.
    pub fn output_len(&self) -> usize {
        self.output.len()
    }

    /// What is to be written.
    pub(crate) fn output(&self) -> &Outbox {
        &self.output
    }

    /// Packet-ins that are not written yet.
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

    /// Starts or stops to keep copies of all messages.
    pub fn set_tap(&mut self, on: bool) {
        self.tap = on.then(Vec::new);
    }

    /// The copies since the last call.
    pub fn take_tap(&mut self) -> Vec<u8> {
        self.tap.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Queues bytes that are messages already.
    pub fn send_raw(&mut self, bytes: &[u8]) {
        self.output.push(bytes);
    }

    /// Queues a message. One that the version has no form for is not sent; flows that are too large for it are left out.
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

    /// Queues a message of our own accord: our version, a transaction of our own where `xid` is none.
    pub fn send_own(&mut self, body: Body) {
        let message = Message::new(self.version, Xid(0), body);
        self.send(&message);
    }

    /// Takes note of a flow mod that it has made.
    pub fn count_flow_mod(&mut self, command: FlowCommand, now: Millis) {
        self.flow_mods.count(command, now);
    }

    /// Queues a probe.
    pub fn send_echo(&mut self) {
        self.send_own(Body::EchoRequest(Vec::new()));
    }

    /// The connection gets messages of this kind for this reason (OpenFlow 1.3.5 §6.3).
    ///
    /// Whoever connected to us gets none until it has asked for packets, which is how tools that only ask questions
    /// are kept quiet.
    pub fn wants(&self, kind: AsyncKind, reason: u8) -> bool {
        self.state == SessionState::Open
            && (!self.service || self.config.miss_send_len != 0)
            && self.masks.wants(self.role, kind, reason)
    }

    /// The next message that is the caller's to answer, with its bytes.
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

    /// The first message has to be a hello (OpenFlow 1.3.5 §6.3.1).
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
                // It is answered in its own version.
                self.send(&message.reply(error_body(OfError::BrcBadVersion, frame)));
                None
            }
            _ => Some(message),
        }
    }

    /// Forgets bundles that nobody has used for a while, and says so.
    pub fn expire_bundles(&mut self, now: Millis) {
        let is_old = |b: &OpenBundle| now.since(b.used) >= self.bundle_idle;
        let old: Vec<u32> = self.bundles.iter().filter(|(_, b)| is_old(b)).map(|(id, _)| *id).collect();
        for id in old {
            if let Some(bundle) = self.bundles.remove(&id) {
                self.send_error(OfError::BfcTimeout, &bundle.request);
            }
        }
    }

    /// When the next bundle is old.
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
