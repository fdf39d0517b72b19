//! One connection with its socket: connecting, reading, writing, snooping.

use crate::backlog::{Backlog, OUTPUT_MAX};
use crate::batch::{Batch, Filling};
use crate::channel::Channel;
use crate::order::{Opened, Order, Parts};
use crate::packet_limit::{OVERFLOW, PacketKind, PacketLimit};
use crate::target::{ConnKind, ControllerTarget};
use crate::trace::VCONN;
use crate::unsent::{self, Unsent};
use ofproto::Preparer;
use openflow::message::ErrorBody;
use openflow::session::Role;
use openflow::{Body, Dialect, Message, VersionSet};
use runtime::coverage::Counter;
use runtime::log::Level;
use runtime::poll_loop::Interest;
use runtime::{Module, RateLimit, WaitSet};
use std::io::{self, ErrorKind, Read};
use std::path::Path;
use std::sync::Arc;
use transport::{Action, Loss, Reconnect, Stream, Target, Wording};
use units::Millis;

static RCONN: Module = Module::new("rconn");
static CONNMGR: Module = Module::new("connmgr");
/// Connections that were closed because the peer did not read.
static CUT_OFF: Counter = Counter::new("rconn_unsent_closed");
static DROPS: RateLimit = RateLimit::new(5, 5);
static REFUSALS: RateLimit = RateLimit::new(10, 10);
static LIMIT: RateLimit = RateLimit::new(60, 600);

/// Bytes that are received in advance of what is decoded. A turn decodes at most these and one read more, which takes about a
/// millisecond, so that echo requests of other connections need not wait longer for their turn.
const INPUT_MAX: usize = 64 << 10;
/// While more bytes than this wait, no part of a long reply is made.
const PARTS_OUTPUT_MAX: usize = 64 << 10;
const READ_SIZE: usize = 64 << 10;

/// One connection.
#[derive(Debug)]
pub(crate) struct Conn {
    pub(crate) kind: ConnKind,
    /// Its configuration; the target is empty for tools.
    pub(crate) settings: ControllerTarget,
    pub(crate) reconnect: Reconnect,
    /// Exists while the socket is connected.
    channel: Option<Channel>,
    /// What its session and it have for each other.
    backlog: Arc<Backlog>,
    /// The main loop waits for what was encoded since the last `flush`.
    is_awaited: bool,
    /// Requests were left because too much output waits.
    held_back: bool,
    /// A long reply that is not complete.
    parts: Option<(Parts, Dialect)>,
    /// Where to connect to; `None` for a connection that the peer opened.
    target: Option<Target>,
    versions: VersionSet,
    stream: Option<Stream>,
    debug_actions: bool,
    snoopers: Vec<Snooper>,
    pub(crate) packet_limit: PacketLimit,
    unsent: Unsent,
}

/// A client of the snoop socket.
#[derive(Debug)]
pub(crate) struct Snooper {
    stream: Stream,
    channel: Channel,
}

impl Conn {
    /// A connection that a peer opened.
    pub(crate) fn accepted(
        bridge: &str,
        kind: ConnKind,
        stream: Stream,
        settings: ControllerTarget,
        (versions, debug_actions): (VersionSet, bool),
        now: Millis,
    ) -> Conn {
        let name = stream.name().to_owned();
        let mut reconnect = Reconnect::accepted(format!("{bridge}<->{name}"), Wording::OpenFlow, now);
        reconnect.set_probe_interval(settings.inactivity_probe.map_or(0, |p| p.0));
        let mut packet_limit = PacketLimit::default();
        packet_limit.configure(&settings);
        Conn {
            kind,
            settings,
            reconnect,
            channel: Some(Channel::new(&name, versions, debug_actions)),
            backlog: Arc::default(),
            is_awaited: false,
            held_back: false,
            parts: None,
            target: None,
            versions,
            stream: Some(stream),
            debug_actions,
            snoopers: Vec::new(),
            packet_limit,
            unsent: Unsent::default(),
        }
    }

    /// A connection that the switch opens. Its name in logs is `<bridge><-><target>`.
    pub(crate) fn active(
        bridge: &str,
        settings: ControllerTarget,
        target: Target,
        (versions, debug_actions): (VersionSet, bool),
        now: Millis,
    ) -> Conn {
        let name = format!("{bridge}<->{}", settings.target);
        let mut conn = Conn {
            kind: ConnKind::Controller,
            reconnect: Reconnect::new(name, Wording::OpenFlow, now),
            settings: settings.clone(),
            channel: None,
            backlog: Arc::default(),
            is_awaited: false,
            held_back: false,
            parts: None,
            target: Some(target),
            versions,
            stream: None,
            debug_actions,
            snoopers: Vec::new(),
            packet_limit: PacketLimit::default(),
            unsent: Unsent::default(),
        };
        conn.configure(settings);
        conn
    }

    /// Applies settings that need no new connection.
    pub(crate) fn configure(&mut self, settings: ControllerTarget) {
        self.reconnect.set_max_backoff(settings.max_backoff.0);
        self.reconnect.set_probe_interval(settings.inactivity_probe.map_or(0, |p| p.0));
        self.packet_limit.configure(&settings);
        self.settings = settings;
    }

    /// Number of snoopers.
    pub(crate) fn snoopers(&self) -> usize {
        self.snoopers.len()
    }

    /// Whether the switch opens the connection, and reopens it.
    pub(crate) fn is_active(&self) -> bool {
        self.target.is_some()
    }

    /// Whether the connection is closed for good.
    pub(crate) fn is_over(&self) -> bool {
        self.target.is_none() && self.stream.is_none()
    }

    /// Whether a version is agreed on.
    pub(crate) fn is_open(&self) -> bool {
        self.channel.as_ref().is_some_and(Channel::is_open)
    }

    /// Whether the socket is connected.
    pub(crate) fn is_connected(&self) -> bool {
        self.channel.is_some()
    }

    /// The role of the peer, if it is open.
    pub(crate) fn role(&self) -> Option<Role> {
        self.is_open().then(|| self.backlog.role())
    }

    /// Runs timers, reads and writes.
    pub(crate) fn run(&mut self, now: Millis) {
        self.progress(now);
        self.read(now);
        match self.reconnect.run(now) {
            Some(Action::Connect) => self.connect(now),
            Some(Action::Disconnect) => self.drop_stream(),
            Some(Action::Probe) => self.channel.iter_mut().for_each(Channel::send_echo),
            None => {}
        }
        for (kind, message, dialect) in self.packet_limit.due(now) {
            self.queue_packet_in(kind, &message, dialect);
        }
        self.write(now);
    }

    /// Negotiates the version when the peer's hello arrives. Returns what its session needs, once.
    pub(crate) fn open(&mut self, now: Millis) -> Option<Opened> {
        let channel = self.channel.as_mut().filter(|c| !c.is_open())?;
        channel.open();
        if !channel.is_open() {
            return None;
        }
        self.reconnect.connected(now);
        self.backlog = Arc::default();
        Some(Opened {
            kind: self.kind,
            target: self.target.is_some().then(|| self.settings.target.clone()),
            name: self.reconnect.name().to_owned(),
            version: channel.version(),
            asynchronous: self.settings.async_messages,
            backlog: Arc::clone(&self.backlog),
        })
    }

    /// At most `count` next requests. `None`: none has arrived, or too much waits already.
    pub(crate) fn decode(&mut self, count: usize, preparer: &mut Preparer) -> Option<Batch> {
        let channel = self.channel.as_mut().filter(|c| c.is_open())?;
        let mut filling = Filling::default();
        channel.decode(&mut filling, preparer, (count, self.backlog.left()));
        self.held_back = channel.output_len() >= OUTPUT_MAX;
        if filling.len() == 0 {
            return None;
        }
        let batch = filling.finish();
        self.backlog.decoded(batch.memory);
        Some(batch)
    }

    /// Carries out what the session orders.
    pub(crate) fn carry_out(&mut self, orders: Vec<Order>, now: Millis) {
        let bytes = orders.iter().map(Order::bytes).sum();
        for order in orders {
            match order {
                Order::Send(message, dialect) => {
                    self.log_refusal(&message);
                    self.channel.iter_mut().for_each(|c| c.send_in(&message, dialect))
                }
                Order::PacketIn(kind, message, dialect) => {
                    if let Some(message) = self.packet_limit.offer(kind, (message, dialect), now) {
                        self.queue_packet_in(kind, &message.0, message.1);
                    }
                }
                Order::DroppedPacketIn(kind) => self.packet_limit.overflow(kind),
                Order::Parts(parts, dialect) => self.parts = self.is_open().then_some((parts, dialect)),
            }
        }
        self.is_awaited |= self.backlog.written(bytes, self.output_len());
    }

    /// Logs that a request is answered with an error.
    fn log_refusal(&self, reply: &Message) {
        if let Body::Error(ErrorBody { error: Some(error), data, .. }) = &reply.body {
            let name = self.reconnect.name();
            let request = openflow::text::request_name(data);
            let request = request.as_deref().unwrap_or("invalid");
            runtime::log_rl!(
                CONNMGR,
                REFUSALS,
                Level::Info,
                "{name}: sending {error} error reply to {request} message"
            );
        }
    }

    /// Makes the next parts of a long reply. Returns whether the last one was made now.
    pub(crate) fn make_parts(&mut self, now: Millis) -> bool {
        let (Some((parts, dialect)), Some(channel)) = (&mut self.parts, &mut self.channel) else {
            return false;
        };
        while channel.output_len() < PARTS_OUTPUT_MAX {
            match parts.next(now) {
                Some(part) => channel.send_in(&part, *dialect),
                None => {
                    self.parts = None;
                    return true;
                }
            }
        }
        false
    }

    /// Queues a packet-in for the socket, unless the peer has left too many unread.
    fn queue_packet_in(&mut self, kind: PacketKind, message: &Message, dialect: Dialect) {
        let (Some(stream), Some(channel)) = (&mut self.stream, &mut self.channel) else { return };
        if channel.waiting_packet_ins() >= self.settings.queue_size {
            // They may only be waiting for the end of this iteration. An error will show there.
            _ = channel.flush(stream);
        }
        if channel.waiting_packet_ins() >= self.settings.queue_size {
            OVERFLOW.hit();
            self.packet_limit.overflow(kind);
            let name = self.reconnect.name();
            runtime::log_rl!(CONNMGR, DROPS, Level::Info, "{name}: dropping packet-in due to queue overflow");
            return;
        }
        channel.send_packet_in(message, dialect);
    }

    fn output_len(&self) -> usize {
        self.channel.as_ref().map_or(0, Channel::output_len)
    }

    fn connect(&mut self, now: Millis) {
        let Some(target) = &self.target else { return };
        match Stream::connect(target) {
            Ok(stream) => self.stream = Some(stream),
            Err(e) => self.reconnect.connect_failed(now, &e),
        }
        self.progress(now);
    }

    /// Begins the session when the socket is connected.
    fn progress(&mut self, now: Millis) {
        if self.channel.is_some() {
            return;
        }
        let Some(stream) = &mut self.stream else { return };
        match stream.connect_progress() {
            Ok(true) => {
                let mut channel = Channel::new(&self.settings.target, self.versions, self.debug_actions);
                channel.set_tap(!self.snoopers.is_empty());
                self.channel = Some(channel);
            }
            Ok(false) => {}
            Err(e) => {
                self.drop_stream();
                self.reconnect.connect_failed(now, &e);
            }
        }
    }

    fn read(&mut self, now: Millis) {
        let (Some(stream), Some(channel)) = (&mut self.stream, &mut self.channel) else { return };
        let mut buffer = [0; READ_SIZE];
        while channel.backlog() < INPUT_MAX && channel.output_len() < OUTPUT_MAX {
            match stream.read(&mut buffer) {
                Ok(0) => return self.lost(now, Loss::Closed),
                Ok(n) => {
                    self.reconnect.activity(now);
                    channel.receive(buffer.get(..n).unwrap_or_default());
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return self.lost(now, Loss::from(&e)),
            }
        }
    }

    /// Writes what is queued; ends a connection that has failed. Returns whether the main loop waits for that.
    pub(crate) fn flush(&mut self, now: Millis) -> bool {
        self.write(now);
        let is_awaited = std::mem::take(&mut self.is_awaited);
        self.backlog.written(0, self.output_len()) | is_awaited
    }

    fn write(&mut self, now: Millis) {
        let copies = self.channel.as_mut().map(Channel::take_tap).unwrap_or_default();
        self.snoopers.retain_mut(|s| s.turn(&copies));
        let (Some(stream), Some(channel)) = (&mut self.stream, &mut self.channel) else { return };
        channel.set_tap(!self.snoopers.is_empty());
        let written = channel.flush(stream);
        if let Some(why) = channel.failure() {
            runtime::warn_rl!(VCONN, LIMIT, "{}: {why}", channel.name);
            return self.lost(now, Loss::from(&io::Error::from_raw_os_error(EPROTO)));
        }
        self.unsent.note(channel.output(), now);
        let patience = unsent::patience(self.settings.inactivity_probe);
        match (written, self.unsent.verdict(channel.output_len(), patience, now)) {
            (Ok(()), None) => {}
            (Ok(()), Some(why)) => {
                CUT_OFF.hit();
                runtime::warn!(RCONN, "{}: peer does not read: {why}, disconnecting", self.reconnect.name());
                self.lost(now, Loss::from(&io::Error::from(ErrorKind::TimedOut)));
            }
            (Err(e), _) => self.lost(now, Loss::from(&e)),
        }
    }

    fn lost(&mut self, now: Millis, loss: Loss) {
        self.drop_stream();
        self.reconnect.disconnected(now, loss);
    }

    fn drop_stream(&mut self) {
        (self.stream, self.channel, self.parts) = (None, None, None);
        self.unsent = Unsent::default();
        self.packet_limit.clear();
    }

    pub(crate) fn log(&mut self) {
        self.reconnect.log_to(&RCONN);
    }

    pub(crate) fn add_snooper(&mut self, stream: Stream) {
        let channel = Channel::new(stream.name(), VersionSet::ALL, false);
        self.snoopers.push(Snooper { stream, channel });
        if let Some(channel) = &mut self.channel {
            channel.set_tap(true);
        }
    }

    pub(crate) fn wait<'a>(&'a self, set: &mut WaitSet<'a>, now: Millis) {
        let output = self.output_len();
        let limits = [
            self.packet_limit.deadline(),
            self.unsent.deadline(output, unsent::patience(self.settings.inactivity_probe)),
        ];
        let deadlines = self.reconnect.deadline(now).into_iter().chain(limits.into_iter().flatten());
        deadlines.for_each(|deadline| set.deadline(deadline));
        for snooper in &self.snoopers {
            set.fd(&snooper.stream, snooper.interest());
        }
        let Some(stream) = &self.stream else { return };
        let Some(channel) = &self.channel else {
            let write = stream.connect_waits_for_write();
            set.fd(stream, if write { Interest::Write } else { Interest::Read });
            return;
        };
        let writes = channel.output_len() > 0;
        let reads = channel.backlog() < INPUT_MAX && channel.output_len() < OUTPUT_MAX;
        match (reads, writes) {
            (true, true) => drop(set.fd(stream, Interest::Both)),
            (false, true) => drop(set.fd(stream, Interest::Write)),
            (true, false) => drop(set.fd(stream, Interest::Read)),
            // The main loop wakes this thread when it has taken requests. Until then events are not polled for: an event could not
            // be handled, and would be reported again at once.
            (false, false) => {}
        }
        if self.held_back && output < OUTPUT_MAX || self.parts.is_some() && output < PARTS_OUTPUT_MAX {
            set.wake_now();
        }
    }
}

/// "Protocol error" (errno(3)).
const EPROTO: i32 = 71;

impl Snooper {
    fn interest(&self) -> Interest {
        match self.channel.output_len() {
            0 => Interest::Read,
            1..OUTPUT_MAX => Interest::Both,
            _ => Interest::Write,
        }
    }

    /// Exchanges hellos and writes copies. Returns false if the snooper is gone.
    fn turn(&mut self, copies: &[u8]) -> bool {
        let mut buffer = [0; 4096];
        // One read per iteration, and none while replies to its echo requests wait: a snooper cannot take time from
        // others.
        if self.channel.output_len() < OUTPUT_MAX {
            match self.stream.read(&mut buffer) {
                Ok(0) => return false,
                Ok(n) => self.channel.receive(buffer.get(..n).unwrap_or_default()),
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(_) => return false,
            }
        }
        self.channel.open();
        // Messages of a snooper after its hello are ignored.
        self.channel.ignore_messages();
        if self.channel.is_open() && self.channel.output_len() < OUTPUT_MAX {
            self.channel.send_raw(copies);
        }
        self.channel.failure().is_none() && self.channel.flush(&mut self.stream).is_ok()
    }
}

/// Parses a target; a relative path is in the run directory.
pub(crate) fn parse(target: &str, rundir: &Path) -> Result<Target, String> {
    let parsed = Target::parse(target, transport::OPENFLOW_PORT).map_err(|e| e.to_string())?;
    Ok(parsed.within(rundir))
}
