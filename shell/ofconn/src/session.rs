//! One OpenFlow connection as the main loop sees it: requests to be answered, messages to be sent, and what the peer has set.

use crate::asynchronous::{AsyncKind, AsyncMasks};
use crate::backlog::Backlog;
use crate::batch::{Batch, Incoming};
use crate::channel::error_message;
use crate::order::{Opened, Order, Parts};
use crate::packet_limit::{OVERFLOW, PacketKind};
use crate::target::ConnKind;
use crate::trace::FlowModCounts;
use openflow::flow_mod::FlowCommand;
use openflow::packet_io::PacketInFormat;
use openflow::session::{Role, SwitchConfig};
use openflow::table::TableFeatures;
use openflow::{Body, Dialect, Message, OfError, Version, Xid};
use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use units::Millis;

/// Packet-ins are dropped while more bytes than this wait for the thread of the sockets.
const PACKET_INS_MAX: usize = 8 << 20;
/// Packets of this many bytes go to a configured controller on a miss until it says otherwise (OpenFlow 1.0 §5.2.3).
const MISS_SEND_LEN_DEFAULT: u16 = 128;
/// `other_config:bundle-idle-timeout` of the switch, where it is not set.
pub(crate) const BUNDLE_IDLE: Millis = Millis::from_secs(10);

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
    /// Bundles by number.
    pub bundles: BTreeMap<u32, OpenBundle>,
    /// Its next request waits for a long job of an earlier one. Probes are still answered.
    pub busy: bool,
    /// The first parts of a request to set table features.
    pub table_features: Vec<TableFeatures>,
    /// OpenFlow 1.0 with Nicira's flow format.
    pub nxm: bool,
    version: Version,
    /// The target of a controller that we connect to.
    pub(crate) target: Option<String>,
    name: String,
    flow_mods: FlowModCounts,
    pub(crate) queues: Queues,
}

/// What waits in both directions.
#[derive(Debug)]
pub(crate) struct Queues {
    /// Requests that are not executed.
    incoming: VecDeque<Batch>,
    /// Orders that the sockets do not have yet.
    outgoing: Vec<Order>,
    /// All parts of a long reply are not queued yet.
    is_sending: bool,
    /// Requests that may be taken in this turn.
    pub(crate) left: u32,
    /// The connection has ended.
    pub(crate) has_ended: bool,
    /// The main loop is to be woken when all output is written.
    pub(crate) awaits_written: bool,
    /// The counts that the sockets share.
    pub(crate) backlog: Arc<Backlog>,
}

impl Session {
    pub(crate) fn new(opened: Opened, debug_actions: bool) -> Session {
        let service = opened.kind == ConnKind::Service;
        let miss_send_len = if service { 0 } else { MISS_SEND_LEN_DEFAULT };
        let masks = match opened.asynchronous {
            true => AsyncMasks::default_for(opened.version),
            false => AsyncMasks::NONE,
        };
        Session {
            service,
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
                is_sending: false,
                left: 0,
                has_ended: false,
                awaits_written: false,
                backlog: opened.backlog,
            },
        }
    }

    /// The agreed version.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Bytes to be written, as far as they are encoded; those of other messages are estimated.
    pub fn output_len(&self) -> usize {
        self.queues.backlog.output_len()
    }

    /// Queues a message. A message that the version cannot express is not sent; flows that are too large for it are left out.
    pub fn send(&mut self, message: Message) {
        self.queues.order(Order::Send(message, self.dialect));
    }

    /// Queues an unsolicited message in the negotiated version.
    pub fn send_own(&mut self, body: Body) {
        self.send(Message::new(self.version, Xid(0), body));
    }

    /// Answers the request in `frame` with an error.
    pub fn send_error(&mut self, error: OfError, frame: &[u8]) {
        self.send(error_message(self.version, error, frame));
    }

    /// Sends a long reply. Until [`is_sending`](Self::is_sending) is false, no other reply may be sent.
    pub fn send_parts(&mut self, parts: Parts) {
        self.queues.is_sending = true;
        self.queues.order(Order::Parts(parts, self.dialect));
    }

    /// Whether parts of a long reply are left.
    pub fn is_sending(&self) -> bool {
        self.queues.is_sending
    }

    /// Queues a packet-in.
    pub(crate) fn send_packet_in(&mut self, kind: PacketKind, message: Message) {
        // Those that the peer leaves unread count too, but there are few: `queue_size` of its settings.
        if self.output_len() > PACKET_INS_MAX {
            OVERFLOW.hit();
            self.queues.order(Order::DroppedPacketIn(kind));
        } else {
            self.queues.order(Order::PacketIn(kind, message, self.dialect));
        }
    }

    /// Records a flow mod of this connection.
    pub fn count_flow_mod(&mut self, command: FlowCommand, now: Millis) {
        self.flow_mods.count(command, now);
    }

    /// Logs how many flow mods there were, if that is due or the connection has ended.
    pub(crate) fn report_flow_mods(&mut self, now: Millis) {
        if self.queues.has_ended || self.flow_mods.due().is_some_and(|due| now >= due) {
            self.flow_mods.report(&self.name, now);
        }
    }

    /// Whether the connection gets messages of this kind for this reason (OpenFlow 1.3.5 §6.3).
    ///
    /// A client of the management socket gets none until it asks for packets, so that tools which only query are not disturbed.
    pub fn wants(&self, kind: AsyncKind, reason: u8) -> bool {
        (!self.service || self.config.miss_send_len != 0) && self.masks.wants(self.role, kind, reason)
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

    /// When a bundle expires or flow mods are to be logged.
    pub(crate) fn deadline(&self, bundle_idle: Millis) -> Option<Millis> {
        let bundles = self.bundles.values().map(|b| b.used + bundle_idle).min();
        bundles.into_iter().chain(self.flow_mods.due()).min()
    }
}

impl Queues {
    fn order(&mut self, order: Order) {
        self.backlog.ordered(order.bytes());
        self.outgoing.push(order);
    }

    /// The orders since the last call.
    pub(crate) fn take_outgoing(&mut self) -> Vec<Order> {
        std::mem::take(&mut self.outgoing)
    }

    /// Whether there are any.
    pub(crate) fn has_outgoing(&self) -> bool {
        !self.outgoing.is_empty()
    }

    pub(crate) fn receive(&mut self, batch: Batch) {
        self.incoming.push_back(batch);
    }

    pub(crate) fn has_incoming(&self) -> bool {
        !self.incoming.is_empty()
    }

    /// The next request or refusal; its bytes are written into `raw`. The flag: the sockets had
    /// stopped reading requests, and there is space for more now.
    pub(crate) fn take_incoming(&mut self, raw: &mut Vec<u8>) -> Option<(Incoming, bool)> {
        let batch = self.incoming.front_mut()?;
        let incoming = batch.take(raw)?;
        let mut is_awaited = false;
        if batch.is_empty() {
            is_awaited = self.backlog.taken(batch.memory);
            self.incoming.pop_front();
        }
        Some((incoming, is_awaited))
    }

    /// The connection has ended. `keep`: requests that were received before are still executed.
    pub(crate) fn end(&mut self, keep: bool) {
        self.has_ended = true;
        if !keep {
            self.incoming.clear();
        }
    }

    pub(crate) fn parts_sent(&mut self) {
        self.is_sending = false;
    }
}
