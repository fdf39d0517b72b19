//! One connection with its socket: connecting, reading, writing, snooping.

use crate::batch::{Batch, BatchBuilder};
use crate::command::{Command, OpenedConn};
use crate::conn_settings::{ConnKind, ConnSettings};
use crate::long_reply::{LongReply, Next};
use crate::message_log::VCONN;
use crate::packet_limit::{OVERFLOW, PacketKind, PacketLimit};
use crate::protocol::ProtocolState;
use crate::unsent::{self, UnsentAges};
use crate::waiting_bytes::{OUTPUT_MAX, WaitingBytes};
use ofproto::Preparer;
use openflow::message::ErrorBody;
use openflow::session::Role;
use openflow::{Body, Dialect, Message, VersionSet};
use runtime::coverage::Counter;
use runtime::log::Level;
use runtime::poll_loop::{Interest, Readiness, Ready};
use runtime::{Module, RateLimit, WaitSet};
use std::io::{self, ErrorKind, Read};
use std::path::Path;
use std::sync::Arc;
use transport::{Action, DisconnectReason, Reconnect, Stream, Target, Wording};
use units::Millis;

static RCONN: Module = Module::new("rconn");
static CONNMGR: Module = Module::new("connmgr");
/// Number of connections that were closed because the peer did not read its output.
static CUT_OFF: Counter = Counter::new("rconn_unsent_closed");
static DROPS: RateLimit = RateLimit::new(5, 5);
static REFUSALS: RateLimit = RateLimit::new(10, 10);
static LIMIT: RateLimit = RateLimit::new(60, 600);

/// While this many received bytes are not decoded, the socket is not read. So a turn decodes at most these bytes and one read more
/// (about 1 ms), and echo requests of other connections wait no longer than that.
const INPUT_MAX: usize = 64 << 10;
/// While this many bytes or more wait to be written, no part of a long reply is made.
const PARTS_OUTPUT_MAX: usize = 64 << 10;
/// Size of the buffer that connections read into.
pub(crate) const READ_SIZE: usize = 64 << 10;

/// One connection.
#[derive(Debug)]
pub(crate) struct Conn {
    pub(crate) kind: ConnKind,
    /// Settings of the connection; the target is empty for tools on the management socket.
    pub(crate) settings: ConnSettings,
    pub(crate) reconnect: Reconnect,
    /// `None` while the socket is not connected.
    protocol: Option<ProtocolState>,
    /// Counts of the bytes that wait between this connection and its session.
    waiting_bytes: Arc<WaitingBytes>,
    /// The main loop has to be woken: since the last `flush`, the unwritten output has fallen to the limit for which it waits.
    must_wake_main: bool,
    /// Decoding stopped because [`OUTPUT_MAX`] bytes or more waited to be written.
    input_paused: bool,
    /// The long reply that is being sent.
    long_reply: Option<LongReply>,
    /// Address to connect to; `None` for a connection that the peer opened.
    target: Option<Target>,
    versions: VersionSet,
    stream: Option<Stream>,
    debug_actions: bool,
    snoopers: Vec<Snooper>,
    pub(crate) packet_limit: PacketLimit,
    unsent: UnsentAges,
    /// Whether there may be something to read.
    readiness: Readiness,
}

/// A client of the snoop socket.
#[derive(Debug)]
pub(crate) struct Snooper {
    stream: Stream,
    protocol: ProtocolState,
}

impl Conn {
    /// A connection that a peer opened.
    pub(crate) fn accepted(
        bridge: &str,
        kind: ConnKind,
        stream: Stream,
        settings: ConnSettings,
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
            protocol: Some(ProtocolState::new(&name, versions, debug_actions)),
            waiting_bytes: Arc::default(),
            must_wake_main: false,
            input_paused: false,
            long_reply: None,
            target: None,
            versions,
            stream: Some(stream),
            debug_actions,
            snoopers: Vec::new(),
            packet_limit,
            unsent: UnsentAges::default(),
            readiness: Readiness::default(),
        }
    }

    /// A connection that the switch opens. Its name in logs is `<bridge><-><target>`.
    pub(crate) fn active(
        bridge: &str,
        settings: ConnSettings,
        target: Target,
        (versions, debug_actions): (VersionSet, bool),
        now: Millis,
    ) -> Conn {
        let name = format!("{bridge}<->{}", settings.target);
        let mut conn = Conn {
            kind: ConnKind::Controller,
            reconnect: Reconnect::new(name, Wording::OpenFlow, now),
            settings: settings.clone(),
            protocol: None,
            waiting_bytes: Arc::default(),
            must_wake_main: false,
            input_paused: false,
            long_reply: None,
            target: Some(target),
            versions,
            stream: None,
            debug_actions,
            snoopers: Vec::new(),
            packet_limit: PacketLimit::default(),
            unsent: UnsentAges::default(),
            readiness: Readiness::default(),
        };
        conn.configure(settings);
        conn
    }

    /// Applies settings of the same target; the connection stays open.
    pub(crate) fn configure(&mut self, settings: ConnSettings) {
        self.reconnect.set_max_backoff(settings.max_backoff.0);
        self.reconnect.set_probe_interval(settings.inactivity_probe.map_or(0, |p| p.0));
        self.packet_limit.configure(&settings);
        self.settings = settings;
    }

    /// Number of snoopers.
    pub(crate) fn snoopers(&self) -> usize {
        self.snoopers.len()
    }

    /// Whether the switch opens the connection, and reopens it after a loss.
    pub(crate) fn is_active(&self) -> bool {
        self.target.is_some()
    }

    /// Whether the connection is closed and will not be reopened.
    pub(crate) fn is_over(&self) -> bool {
        self.target.is_none() && self.stream.is_none()
    }

    /// Whether version negotiation has succeeded.
    pub(crate) fn is_open(&self) -> bool {
        self.protocol.as_ref().is_some_and(ProtocolState::is_open)
    }

    /// Whether the socket is connected.
    pub(crate) fn is_connected(&self) -> bool {
        self.protocol.is_some()
    }

    /// Whether serving the connection may take long: a long reply, or TLS.
    pub(crate) fn has_long_work(&self) -> bool {
        self.long_reply.is_some() || self.stream.as_ref().is_some_and(Stream::is_tls)
    }

    /// The role of the peer, if the connection is open.
    pub(crate) fn role(&self) -> Option<Role> {
        self.is_open().then(|| self.waiting_bytes.role())
    }

    /// Runs timers, reads and writes. `buffer` is used while reading. The number of received bytes is added to `work`; nothing is read
    /// while that is `work_max` or more.
    pub(crate) fn run(&mut self, buffer: &mut [u8], (work, work_max): (&mut usize, usize), now: Millis) {
        self.progress(now);
        // A peer whose answer has not been read must not count as inactive.
        if *work < work_max {
            // A TLS stream may have bytes that it has read from the socket already.
            if self.readiness.may_be_ready() || self.stream.as_ref().is_some_and(Stream::is_tls) {
                self.read(buffer, (work, work_max), now);
            }
            match self.reconnect.run(now) {
                Some(Action::Connect) => self.connect(now),
                Some(Action::Disconnect) => self.drop_stream(),
                Some(Action::Probe) => self.protocol.iter_mut().for_each(ProtocolState::send_echo),
                None => {}
            }
        }
        for (kind, message, dialect) in self.packet_limit.take_due(now) {
            self.queue_packet_in(kind, &message, dialect);
        }
        self.write(now);
    }

    /// Negotiates the version when the peer's hello has arrived. Returns the data for a new session when that succeeds, otherwise `None`.
    pub(crate) fn open(&mut self, now: Millis) -> Option<OpenedConn> {
        let protocol = self.protocol.as_mut().filter(|c| !c.is_open())?;
        protocol.open();
        if !protocol.is_open() {
            return None;
        }
        self.reconnect.connected(now);
        self.waiting_bytes = Arc::default();
        Some(OpenedConn {
            target: self.target.is_some().then(|| self.settings.target.clone()),
            name: self.reconnect.name().to_owned(),
            version: protocol.version(),
            asynchronous: self.settings.async_messages,
            waiting_bytes: Arc::clone(&self.waiting_bytes),
        })
    }

    /// Decodes at most `count` further requests. `None`: no complete request has arrived, or too many requests wait for the main loop.
    pub(crate) fn decode(&mut self, count: usize, preparer: &mut Preparer) -> Option<Batch> {
        let protocol = self.protocol.as_mut().filter(|c| c.is_open())?;
        let mut filling = BatchBuilder::default();
        protocol.decode(&mut filling, preparer, (count, self.waiting_bytes.request_space()));
        self.input_paused = protocol.output_len() >= OUTPUT_MAX;
        if filling.len() == 0 {
            return None;
        }
        let batch = filling.finish();
        self.waiting_bytes.requests_decoded(batch.memory);
        Some(batch)
    }

    /// Carries out commands of the session.
    pub(crate) fn carry_out(&mut self, commands: Vec<Command>, now: Millis) {
        let mut bytes = 0;
        for command in commands {
            let command = match &mut self.long_reply {
                Some(reply) => reply.defer(command),
                None => Some(command),
            };
            // The bytes of a deferred command count as waiting until it is carried out.
            let Some(command) = command else { continue };
            bytes += command.bytes();
            self.carry_out_one(command, now);
        }
        self.must_wake_main |= self.waiting_bytes.update_output(bytes, self.output_len());
    }

    fn carry_out_one(&mut self, command: Command, now: Millis) {
        match command {
            Command::Send(message, dialect) => {
                self.log_refusal(&message);
                self.protocol.iter_mut().for_each(|c| c.send_in_dialect(&message, dialect))
            }
            Command::PacketIn(kind, message, dialect) => {
                if let Some(message) = self.packet_limit.offer(kind, (message, dialect), now) {
                    self.queue_packet_in(kind, &message.0, message.1);
                }
            }
            Command::DroppedPacketIn(kind) => self.packet_limit.count_overflow(kind),
            Command::Parts(parts, dialect) => {
                self.long_reply = self.is_open().then(|| LongReply::new(parts, dialect))
            }
        }
    }

    /// Logs `reply` if it is an error reply.
    fn log_refusal(&self, reply: &Message) {
        if let Body::Error(ErrorBody { error: Some(error), data, .. }) = &reply.body {
            let name = self.reconnect.name();
            let request = openflow::text::message_type_name(data);
            let request = request.as_deref().unwrap_or("invalid");
            runtime::log_rl!(
                CONNMGR,
                REFUSALS,
                Level::Info,
                "{name}: sending {error} error reply to {request} message"
            );
        }
    }

    /// Makes the next parts of long replies, and carries out the commands that follow them. Returns the number of replies of which this
    /// call found that no parts are left.
    pub(crate) fn make_parts(&mut self, now: Millis) -> usize {
        let mut ended = 0;
        while self.output_len() < PARTS_OUTPUT_MAX
            && let (Some(reply), Some(protocol)) = (&mut self.long_reply, &mut self.protocol)
        {
            match reply.next(now) {
                Next::Part(part, dialect) => protocol.send_in_dialect(&part, dialect),
                Next::PartsEnd => ended += 1,
                Next::Command(command) => {
                    let bytes = command.bytes();
                    self.carry_out_one(command, now);
                    self.must_wake_main |= self.waiting_bytes.update_output(bytes, self.output_len());
                }
                Next::End => self.long_reply = None,
            }
        }
        ended
    }

    /// Bytes that wait to be written, and the memory of deferred commands.
    fn unsent_len(&self) -> usize {
        self.output_len() + self.long_reply.as_ref().map_or(0, LongReply::deferred_memory)
    }

    /// Queues a packet-in for the socket, unless `queue_size` earlier ones are not written yet.
    fn queue_packet_in(&mut self, kind: PacketKind, message: &Message, dialect: Dialect) {
        let (Some(stream), Some(protocol)) = (&mut self.stream, &mut self.protocol) else { return };
        if protocol.waiting_packet_ins() >= self.settings.queue_size {
            // The socket may be writable: output is usually written at the end of the turn only. A write error occurs there again.
            _ = protocol.flush(stream);
        }
        if protocol.waiting_packet_ins() >= self.settings.queue_size {
            OVERFLOW.hit();
            self.packet_limit.count_overflow(kind);
            let name = self.reconnect.name();
            runtime::log_rl!(CONNMGR, DROPS, Level::Info, "{name}: dropping packet-in due to queue overflow");
            return;
        }
        protocol.send_packet_in(message, dialect);
    }

    fn output_len(&self) -> usize {
        self.protocol.as_ref().map_or(0, ProtocolState::output_len)
    }

    fn connect(&mut self, now: Millis) {
        let Some(target) = &self.target else { return };
        match Stream::connect(target) {
            Ok(stream) => self.stream = Some(stream),
            Err(e) => self.reconnect.start_failed(now, &e),
        }
        self.progress(now);
    }

    /// Creates the protocol state when the socket is connected, which also queues the hello.
    fn progress(&mut self, now: Millis) {
        if self.protocol.is_some() {
            return;
        }
        let Some(stream) = &mut self.stream else { return };
        match stream.connect_progress() {
            Ok(true) => {
                let mut protocol =
                    ProtocolState::new(&self.settings.target, self.versions, self.debug_actions);
                protocol.set_snooped(!self.snoopers.is_empty());
                self.protocol = Some(protocol);
            }
            Ok(false) => {}
            Err(e) => {
                self.drop_stream();
                self.reconnect.connect_failed(now, &e);
            }
        }
    }

    fn read(&mut self, buffer: &mut [u8], (work, work_max): (&mut usize, usize), now: Millis) {
        let (Some(stream), Some(protocol)) = (&mut self.stream, &mut self.protocol) else { return };
        while protocol.backlog() < INPUT_MAX && protocol.output_len() < OUTPUT_MAX && *work < work_max {
            match stream.read(buffer) {
                Ok(0) => return self.lost(now, DisconnectReason::Closed),
                Ok(n) => {
                    *work += n;
                    self.reconnect.activity(now);
                    protocol.receive(buffer.get(..n).unwrap_or_default());
                    // A TLS stream may have more bytes that it has read from the socket already.
                    if n < buffer.len() && !stream.is_tls() {
                        break;
                    }
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return self.lost(now, DisconnectReason::from(&e)),
            }
        }
    }

    /// Writes queued output; closes a connection that has failed. Returns whether the main loop waits for output to be written.
    pub(crate) fn flush(&mut self, now: Millis) -> bool {
        self.write(now);
        let must_wake_main = std::mem::take(&mut self.must_wake_main);
        self.waiting_bytes.update_output(0, self.output_len()) | must_wake_main
    }

    /// Writes output, and copies for snoopers. Closes a connection that has failed or whose peer does not read.
    fn write(&mut self, now: Millis) {
        let copies = self.protocol.as_mut().map(ProtocolState::take_snoop_copies).unwrap_or_default();
        self.snoopers.retain_mut(|s| s.turn(&copies));
        let (Some(stream), Some(protocol)) = (&mut self.stream, &mut self.protocol) else { return };
        protocol.set_snooped(!self.snoopers.is_empty());
        let written = protocol.flush(stream);
        if let Some(why) = protocol.failure() {
            runtime::warn_rl!(VCONN, LIMIT, "{}: {why}", protocol.name);
            return self.lost(now, DisconnectReason::from(&io::Error::from_raw_os_error(EPROTO)));
        }
        self.unsent.record(protocol.output(), now);
        let age_limit = unsent::age_limit(self.settings.inactivity_probe);
        match (written, self.unsent.disconnect_reason(self.unsent_len(), age_limit, now)) {
            (Ok(()), None) => {}
            (Ok(()), Some(why)) => {
                CUT_OFF.hit();
                runtime::warn!(RCONN, "{}: peer does not read: {why}, disconnecting", self.reconnect.name());
                self.lost(now, DisconnectReason::from(&io::Error::from(ErrorKind::TimedOut)));
            }
            (Err(e), _) => self.lost(now, DisconnectReason::from(&e)),
        }
    }

    fn lost(&mut self, now: Millis, loss: DisconnectReason) {
        self.drop_stream();
        self.reconnect.disconnected(now, loss);
    }

    fn drop_stream(&mut self) {
        (self.stream, self.protocol, self.long_reply) = (None, None, None);
        self.unsent = UnsentAges::default();
        self.packet_limit.clear();
    }

    pub(crate) fn log(&mut self) {
        self.reconnect.log_to(&RCONN);
    }

    pub(crate) fn add_snooper(&mut self, stream: Stream) {
        let protocol = ProtocolState::new(stream.name(), VersionSet::ALL, false);
        self.snoopers.push(Snooper { stream, protocol });
        if let Some(protocol) = &mut self.protocol {
            protocol.set_snooped(true);
        }
    }

    /// Tells the result of a sleep after [`wait`](Self::wait). Without this call, each turn reads.
    pub(crate) fn record_sleep(&mut self, ready: &Ready) {
        self.readiness.record_sleep(ready);
    }

    pub(crate) fn wait<'a>(&'a self, set: &mut WaitSet<'a>, now: Millis) {
        let output = self.output_len();
        let limits = [
            self.packet_limit.deadline(),
            self.unsent.deadline(self.unsent_len(), unsent::age_limit(self.settings.inactivity_probe)),
        ];
        let deadlines = self.reconnect.deadline(now).into_iter().chain(limits.into_iter().flatten());
        deadlines.for_each(|deadline| set.deadline(deadline));
        for snooper in &self.snoopers {
            set.fd(&snooper.stream, snooper.interest());
        }
        let Some(stream) = &self.stream else { return };
        let Some(protocol) = &self.protocol else {
            let write = stream.connect_waits_for_write();
            set.fd(stream, if write { Interest::Write } else { Interest::Read });
            return;
        };
        let writes = protocol.output_len() > 0;
        let reads = protocol.backlog() < INPUT_MAX && protocol.output_len() < OUTPUT_MAX;
        let interest = match (reads, writes) {
            (true, true) => Some(Interest::Both),
            (false, true) => Some(Interest::Write),
            (true, false) => Some(Interest::Read),
            // The main loop wakes this thread after it has taken requests. Until then the socket is not polled: the thread could not
            // handle its events, and poll would report them again at once.
            (false, false) => None,
        };
        self.readiness.wait(set, stream, interest);
        if self.input_paused && output < OUTPUT_MAX || self.long_reply.is_some() && output < PARTS_OUTPUT_MAX
        {
            set.wake_now();
        }
    }
}

/// "Protocol error" (errno(3)).
const EPROTO: i32 = 71;

impl Snooper {
    fn interest(&self) -> Interest {
        match self.protocol.output_len() {
            0 => Interest::Read,
            1..OUTPUT_MAX => Interest::Both,
            _ => Interest::Write,
        }
    }

    /// Exchanges hellos and writes copies of the connection's messages. Returns false if the snooper has disconnected or failed.
    fn turn(&mut self, copies: &[u8]) -> bool {
        let mut buffer = [0; 4096];
        // One read per turn, and none while much output waits, so that a snooper cannot delay other connections.
        if self.protocol.output_len() < OUTPUT_MAX {
            match self.stream.read(&mut buffer) {
                Ok(0) => return false,
                Ok(n) => self.protocol.receive(buffer.get(..n).unwrap_or_default()),
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(_) => return false,
            }
        }
        self.protocol.open();
        // Messages of a snooper after its hello are ignored.
        self.protocol.ignore_messages();
        if self.protocol.is_open() && self.protocol.output_len() < OUTPUT_MAX {
            self.protocol.send_raw(copies);
        }
        self.protocol.failure().is_none() && self.protocol.flush(&mut self.stream).is_ok()
    }
}

/// Parses a target; a relative path is in the run directory.
pub(crate) fn parse(target: &str, rundir: &Path) -> Result<Target, String> {
    let parsed = Target::parse(target, transport::OPENFLOW_PORT).map_err(|e| e.to_string())?;
    Ok(parsed.within(rundir))
}
