//! One OpenFlow connection as the main loop sees it: requests to be answered, messages to be sent, and the state that the peer has set.

use crate::asynchronous::{AsyncKind, AsyncMasks};
use crate::batch::{Batch, Incoming};
use crate::command::{Command, OpenedConn, Parts};
use crate::message_log::FlowModCounts;
use crate::packet_limit::{OVERFLOW, PacketKind};
use crate::protocol::error_message;
use crate::waiting_bytes::WaitingBytes;
use openflow::flow_mod::FlowCommand;
use openflow::packet_io::PacketInFormat;
use openflow::session::{Role, SwitchConfig};
use openflow::table::TableFeatures;
use openflow::{Body, Dialect, Message, OfError, Version, Xid};
use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use units::Millis;

/// Packet-ins are dropped while more bytes of output than this are not written, so that a flood of packet-ins cannot fill the memory.
const PACKET_INS_MAX: usize = 8 << 20;
/// `miss_send_len` of a controller to which the switch connects until it sends `SET_CONFIG`, in bytes (OpenFlow 1.0 §5.2.3).
const MISS_SEND_LEN_DEFAULT: u16 = 128;
/// Default of `other_config:bundle-idle-timeout` of the switch.
pub(crate) const BUNDLE_IDLE: Millis = Millis::from_secs(10);

/// A bundle that a controller is filling (OpenFlow 1.4.1 §6.9). The switch executes its messages.
#[derive(Debug)]
pub struct OpenBundle {
    /// `openflow::session::bundle_flags`
    pub flags: u16,
    /// Whether the controller has closed the bundle; a closed bundle accepts no more messages.
    pub closed: bool,
    /// The messages of the bundle, in a type that only the code which executes bundles knows.
    pub messages: Box<dyn Any + Send>,
    /// When the controller last sent a message about this bundle.
    pub used: Millis,
    /// The bytes of the request that opened the bundle, for error replies.
    pub request: Vec<u8>,
}

/// State of one connection.
#[derive(Debug)]
pub struct Session {
    /// Whether the peer opened the connection: a client of the management socket, or of a passive target of the configuration. Otherwise it
    /// is a controller to which the switch connects.
    pub is_service: bool,
    /// The role of the peer.
    pub role: Role,
    /// The asynchronous messages that the peer has subscribed to.
    pub masks: AsyncMasks,
    /// The format of packet-ins to the peer.
    pub packet_in_format: PacketInFormat,
    /// The peer's controller id. A `controller` action sends packet-ins to the connections with the id that the action names.
    pub controller_id: u16,
    /// The last `SET_CONFIG`.
    pub config: SwitchConfig,
    /// Negotiated features besides the version.
    pub dialect: Dialect,
    /// Bundles by number.
    pub bundles: BTreeMap<u32, OpenBundle>,
    /// The next request waits until a long job of an earlier request is done. Echo requests are still answered.
    pub busy: bool,
    /// Tables of a multipart request to set table features whose last part has not arrived.
    pub table_features: Vec<TableFeatures>,
    /// Flow messages use Nicira's extended match format instead of that of OpenFlow 1.0.
    pub nxm: bool,
    version: Version,
    /// The target, if the switch opened the connection.
    pub(crate) target: Option<String>,
    name: String,
    flow_mods: FlowModCounts,
    pub(crate) queues: Queues,
}

/// Requests and commands that wait in the session.
#[derive(Debug)]
pub(crate) struct Queues {
    /// Requests that are not executed yet.
    incoming: VecDeque<Batch>,
    /// Commands that were not handed to the sockets yet.
    outgoing: Vec<Command>,
    /// Number of long replies of which some parts are not encoded yet.
    pub(crate) long_replies: usize,
    /// Number of requests of the connection that may still be executed in this turn.
    pub(crate) turn_quota: u32,
    /// The connection has ended.
    pub(crate) has_ended: bool,
    /// The main loop has to be woken when all output is written.
    pub(crate) awaits_written: bool,
    /// Byte counts, shared with the sockets.
    pub(crate) waiting_bytes: Arc<WaitingBytes>,
}

impl Session {
    pub(crate) fn new(opened: OpenedConn, debug_actions: bool) -> Session {
        let is_service = opened.target.is_none();
        let miss_send_len = if is_service { 0 } else { MISS_SEND_LEN_DEFAULT };
        let masks = match opened.asynchronous {
            true => AsyncMasks::default_for(opened.version),
            false => AsyncMasks::NONE,
        };
        Session {
            is_service,
            role: Role::Equal,
            masks,
            packet_in_format: PacketInFormat::Standard,
            controller_id: 0,
            config: SwitchConfig { miss_send_len, ..SwitchConfig::default() },
            dialect: Dialect { debug_actions, ..Dialect::default() },
            bundles: BTreeMap::new(),
            busy: false,
            table_features: Vec::new(),
            nxm: false,
            version: opened.version,
            target: opened.target,
            name: opened.name,
            flow_mods: FlowModCounts::default(),
            queues: Queues {
                incoming: VecDeque::new(),
                outgoing: Vec::new(),
                long_replies: 0,
                turn_quota: 0,
                has_ended: false,
                awaits_written: false,
                waiting_bytes: opened.waiting_bytes,
            },
        }
    }

    /// The agreed version.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Bytes that wait to be written: exact for encoded messages, estimated for the other ones.
    pub fn output_len(&self) -> usize {
        self.queues.waiting_bytes.output_len()
    }

    /// Queues a message. A message that the version cannot express is not sent; flows that are too large for it are left out.
    pub fn send(&mut self, message: Message) {
        self.queues.push(Command::Send(message, self.dialect));
    }

    /// Queues an unsolicited message in the negotiated version.
    pub fn send_unsolicited(&mut self, body: Body) {
        self.send(Message::new(self.version, Xid(0), body));
    }

    /// Answers the request in `frame` with an error.
    pub fn send_error(&mut self, error: OfError, frame: &[u8]) {
        self.send(error_message(self.version, error, frame));
    }

    /// Sends a long reply. Until [`is_sending`](Self::is_sending) is false, no reply to another request may be sent. Updates of flow
    /// monitors and other long replies follow after the last part.
    pub fn send_parts(&mut self, parts: Parts) {
        self.queues.long_replies += 1;
        self.queues.push(Command::Parts(parts, self.dialect));
    }

    /// Whether parts of long replies are left. A connection that has ended gets no more parts.
    pub fn is_sending(&self) -> bool {
        self.queues.long_replies > 0 && !self.queues.has_ended
    }

    /// Queues a packet-in.
    pub(crate) fn send_packet_in(&mut self, kind: PacketKind, message: Message) {
        // `output_len` includes packet-ins that the peer leaves unread, but the sockets limit their number to `queue_size`.
        if self.output_len() > PACKET_INS_MAX {
            OVERFLOW.hit();
            self.queues.push(Command::DroppedPacketIn(kind));
        } else {
            self.queues.push(Command::PacketIn(kind, message, self.dialect));
        }
    }

    /// Records a flow mod of this connection.
    pub fn count_flow_mod(&mut self, command: FlowCommand, now: Millis) {
        self.flow_mods.count(command, now);
    }

    /// Logs the number of flow mods if a report is due or the connection has ended.
    pub(crate) fn report_flow_mods(&mut self, now: Millis) {
        if self.queues.has_ended || self.flow_mods.due().is_some_and(|due| now >= due) {
            self.flow_mods.report(&self.name, now);
        }
    }

    /// Whether the connection gets messages of this kind for this reason (OpenFlow 1.3.5 §6.3).
    ///
    /// A peer that opened the connection itself gets none until it sets `miss_send_len`, so that tools which only query get only replies.
    pub fn wants(&self, kind: AsyncKind, reason: u8) -> bool {
        (!self.is_service || self.config.miss_send_len != 0) && self.masks.wants(self.role, kind, reason)
    }

    /// Discards bundles that have not been used for `idle`, and sends an error for each.
    pub(crate) fn expire_bundles(&mut self, idle: Millis, now: Millis) {
        let is_old = |b: &OpenBundle| now.since(b.used) >= idle;
        let old: Vec<u32> = self.bundles.iter().filter(|(_, b)| is_old(b)).map(|(id, _)| *id).collect();
        for id in old {
            if let Some(bundle) = self.bundles.remove(&id) {
                self.send_error(OfError::BfcTimeout, &bundle.request);
            }
        }
    }

    /// When the next bundle expires or a report of flow mods is due.
    pub(crate) fn deadline(&self, bundle_idle: Millis) -> Option<Millis> {
        let bundles = self.bundles.values().map(|b| b.used + bundle_idle).min();
        bundles.into_iter().chain(self.flow_mods.due()).min()
    }
}

impl Queues {
    fn push(&mut self, command: Command) {
        self.waiting_bytes.add_pending_output(command.bytes());
        self.outgoing.push(command);
    }

    /// The commands since the last call.
    pub(crate) fn take_outgoing(&mut self) -> Vec<Command> {
        std::mem::take(&mut self.outgoing)
    }

    /// Whether a turn of the main loop would do nothing. `busy`: requests are held.
    pub(crate) fn is_idle(&self, busy: bool) -> bool {
        let has_requests = self.has_incoming() && !busy;
        // The quota is 0 in a new session, after a turn that used it up, and after a turn that found much
        // unwritten output.
        let needs_turn = self.turn_quota == 0;
        !(has_requests || needs_turn || self.has_outgoing() || self.awaits_written || self.has_ended)
    }

    /// Whether commands wait to be handed to the sockets.
    pub(crate) fn has_outgoing(&self) -> bool {
        !self.outgoing.is_empty()
    }

    pub(crate) fn receive(&mut self, batch: Batch) {
        self.incoming.push_back(batch);
    }

    pub(crate) fn has_incoming(&self) -> bool {
        !self.incoming.is_empty()
    }

    /// The next request or refusal; the bytes of the message are written into `raw`. The flag tells the caller to wake the sockets:
    /// they had stopped decoding because too many requests waited for the main loop, and the main loop has taken enough of them.
    pub(crate) fn take_incoming(&mut self, raw: &mut Vec<u8>) -> Option<(Incoming, bool)> {
        let batch = self.incoming.front_mut()?;
        let incoming = batch.take_next(raw)?;
        let mut must_wake_sockets = false;
        if batch.is_empty() {
            must_wake_sockets = self.waiting_bytes.requests_taken(batch.memory);
            self.incoming.pop_front();
        }
        Some((incoming, must_wake_sockets))
    }

    /// Records that the connection has ended. With `keep`, requests that were received before are still executed.
    pub(crate) fn end(&mut self, keep: bool) {
        self.has_ended = true;
        if !keep {
            self.incoming.clear();
        }
    }

    pub(crate) fn parts_sent(&mut self) {
        self.long_replies = self.long_replies.saturating_sub(1);
    }
}
