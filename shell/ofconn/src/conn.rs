//! One connection with its socket: connecting, reading, writing, snooping.

use crate::packet_limit::{PacketKind, PacketLimit};
use crate::session::{Session, SessionState};
use crate::target::{ConnKind, ControllerTarget};
use crate::trace::VCONN;
use crate::unsent::{self, Unsent};
use openflow::{Message, VersionSet};
use runtime::coverage::Counter;
use runtime::log::Level;
use runtime::poll_loop::Interest;
use runtime::{Module, RateLimit, WaitSet};
use std::io::{self, ErrorKind, Read};
use std::path::Path;
use transport::{Action, Loss, Reconnect, Stream, Target, Wording};
use units::Millis;

static RCONN: Module = Module::new("rconn");
static CONNMGR: Module = Module::new("connmgr");
/// Packet-ins that were dropped because the peer did not read earlier ones.
static OVERFLOW: Counter = Counter::new("rconn_overflow");
/// Connections that were closed because the peer did not read.
static CUT_OFF: Counter = Counter::new("rconn_unsent_closed");
static DROPS: RateLimit = RateLimit::new(5, 5);
static LIMIT: RateLimit = RateLimit::new(60, 600);

/// If more bytes of replies than this wait, nothing more is read from the peer.
const OUTPUT_MAX: usize = 512 << 10;
/// Unread bytes that are received in advance at most.
const INPUT_MAX: usize = 256 << 10;
/// Messages of one connection per iteration: enough to make the cost of an iteration small.
const TURN_MAX: u32 = 256;
const READ_SIZE: usize = 64 << 10;

/// One connection.
#[derive(Debug)]
pub(crate) struct Conn {
    pub(crate) kind: ConnKind,
    /// Its configuration; the target is empty for tools.
    pub(crate) settings: ControllerTarget,
    pub(crate) reconnect: Reconnect,
    /// Exists while the connection, or an attempt to connect, exists.
    pub(crate) session: Option<Session>,
    /// Where to connect to; `None` for a connection that the peer opened.
    target: Option<Target>,
    versions: VersionSet,
    stream: Option<Stream>,
    snoopers: Vec<Snooper>,
    left: u32,
    pub(crate) packet_limit: PacketLimit,
    unsent: Unsent,
}

/// A client of the snoop socket.
#[derive(Debug)]
pub(crate) struct Snooper {
    stream: Stream,
    session: Session,
}

impl Conn {
    /// A connection that a peer opened.
    pub(crate) fn accepted(
        bridge: &str,
        kind: ConnKind,
        stream: Stream,
        settings: ControllerTarget,
        versions: VersionSet,
        now: Millis,
    ) -> Conn {
        let name = stream.name().to_owned();
        let mut reconnect = Reconnect::accepted(format!("{bridge}<->{name}"), Wording::OpenFlow, now);
        reconnect.set_probe_interval(settings.inactivity_probe.map_or(0, |p| p.0));
        let mut session = Session::new(&name, kind == ConnKind::Service, versions);
        session.async_by_default = settings.async_messages;
        let mut packet_limit = PacketLimit::default();
        packet_limit.configure(&settings);
        Conn {
            kind,
            settings,
            reconnect,
            session: Some(session),
            target: None,
            versions,
            stream: Some(stream),
            snoopers: Vec::new(),
            left: 0,
            packet_limit,
            unsent: Unsent::default(),
        }
    }

    /// A connection that the switch opens. Its name in logs is `<bridge><-><target>`.
    pub(crate) fn active(
        bridge: &str,
        settings: ControllerTarget,
        target: Target,
        versions: VersionSet,
        now: Millis,
    ) -> Conn {
        let name = format!("{bridge}<->{}", settings.target);
        let mut conn = Conn {
            kind: ConnKind::Controller,
            reconnect: Reconnect::new(name, Wording::OpenFlow, now),
            settings: settings.clone(),
            session: None,
            target: Some(target),
            versions,
            stream: None,
            snoopers: Vec::new(),
            left: 0,
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

    /// The session, if it is connected and has negotiated a version.
    pub(crate) fn open_session(&mut self) -> Option<&mut Session> {
        self.session.as_mut().filter(|s| s.state() == SessionState::Open)
    }

    pub(crate) fn is_open(&self) -> bool {
        self.session.as_ref().is_some_and(|s| s.state() == SessionState::Open)
    }

    /// Runs timers, reads and writes.
    pub(crate) fn run(&mut self, now: Millis) {
        self.left = TURN_MAX;
        self.progress(now);
        self.read(now);
        match self.reconnect.run(now) {
            Some(Action::Connect) => self.connect(now),
            Some(Action::Disconnect) => self.drop_stream(now),
            Some(Action::Probe) => self.session.iter_mut().for_each(Session::send_echo),
            None => {}
        }
        for (kind, message) in self.packet_limit.due(now) {
            self.queue_packet_in(kind, &message);
        }
        if let Some(session) = &mut self.session {
            session.expire_bundles(now);
            if session.flow_mods.due().is_some_and(|due| now >= due) {
                session.flow_mods.report(self.reconnect.name(), now);
            }
        }
        self.flush(now);
    }

    /// Sends a packet-in, now or when the rate allows it.
    pub(crate) fn send_packet_in(&mut self, kind: PacketKind, message: Message, now: Millis) {
        if let Some(message) = self.packet_limit.offer(kind, message, now) {
            self.queue_packet_in(kind, &message);
        }
    }

    /// Queues a packet-in for the socket, unless the peer has left too many unread.
    fn queue_packet_in(&mut self, kind: PacketKind, message: &Message) {
        let (Some(stream), Some(session)) = (&mut self.stream, &mut self.session) else { return };
        if session.waiting_packet_ins() >= self.settings.queue_size {
            // They may only be waiting for the end of this iteration. An error will show there.
            _ = session.flush(stream);
        }
        if session.waiting_packet_ins() >= self.settings.queue_size {
            OVERFLOW.hit();
            self.packet_limit.overflow(kind);
            let name = self.reconnect.name();
            runtime::log_rl!(CONNMGR, DROPS, Level::Info, "{name}: dropping packet-in due to queue overflow");
            return;
        }
        session.send_packet_in(message);
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
        if self.session.is_some() {
            return;
        }
        let Some(stream) = &mut self.stream else { return };
        match stream.connect_progress() {
            Ok(true) => {
                let mut session = Session::new(&self.settings.target, false, self.versions);
                session.async_by_default = self.settings.async_messages;
                session.set_tap(!self.snoopers.is_empty());
                self.session = Some(session);
            }
            Ok(false) => {}
            Err(e) => {
                self.drop_stream(now);
                self.reconnect.connect_failed(now, &e);
            }
        }
    }

    fn read(&mut self, now: Millis) {
        let (Some(stream), Some(session)) = (&mut self.stream, &mut self.session) else { return };
        let mut buffer = [0; READ_SIZE];
        while session.backlog() < INPUT_MAX && session.output_len() < OUTPUT_MAX {
            match stream.read(&mut buffer) {
                Ok(0) => return self.lost(now, Loss::Closed),
                Ok(n) => {
                    self.reconnect.activity(now);
                    session.receive(buffer.get(..n).unwrap_or_default());
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return self.lost(now, Loss::from(&e)),
            }
        }
    }

    /// The next request, until this iteration's share is used up.
    pub(crate) fn next_message(&mut self, now: Millis) -> Option<(Message, Vec<u8>)> {
        if self.left == 0 || self.session.as_ref()?.output_len() >= OUTPUT_MAX {
            return None;
        }
        let session = self.session.as_mut()?;
        let was_open = session.state() == SessionState::Open;
        let message = session.next_message();
        if !was_open && session.state() == SessionState::Open {
            self.reconnect.connected(now);
        }
        self.left = if message.is_some() { self.left - 1 } else { TURN_MAX };
        message
    }

    /// Writes what is queued; ends a session that has failed.
    pub(crate) fn flush(&mut self, now: Millis) {
        let copies = self.session.as_mut().map(Session::take_tap).unwrap_or_default();
        self.snoopers.retain_mut(|s| s.turn(&copies));
        let (Some(stream), Some(session)) = (&mut self.stream, &mut self.session) else { return };
        session.set_tap(!self.snoopers.is_empty());
        let written = session.flush(stream);
        if let Some(why) = session.failure() {
            runtime::warn_rl!(VCONN, LIMIT, "{}: {why}", session.name);
            return self.lost(now, Loss::from(&io::Error::from_raw_os_error(EPROTO)));
        }
        self.unsent.note(session.output(), now);
        let patience = unsent::patience(self.settings.inactivity_probe);
        match (written, self.unsent.verdict(session.output_len(), patience, now)) {
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
        self.drop_stream(now);
        self.reconnect.disconnected(now, loss);
    }

    fn drop_stream(&mut self, now: Millis) {
        self.stream = None;
        self.unsent = Unsent::default();
        self.packet_limit.clear();
        if let Some(mut session) = self.session.take() {
            session.flow_mods.report(self.reconnect.name(), now);
        }
    }

    pub(crate) fn log(&mut self) {
        self.reconnect.log_to(&RCONN);
    }

    pub(crate) fn add_snooper(&mut self, stream: Stream) {
        let session = Session::new(stream.name(), true, VersionSet::ALL);
        self.snoopers.push(Snooper { stream, session });
        if let Some(session) = &mut self.session {
            session.set_tap(true);
        }
    }

    pub(crate) fn wait<'a>(&'a self, set: &mut WaitSet<'a>, now: Millis) {
        let own = self.session.iter().flat_map(|s| [s.next_bundle_deadline(), s.flow_mods.due()]).flatten();
        let output = self.session.as_ref().map_or(0, Session::output_len);
        let limits = [
            self.packet_limit.deadline(),
            self.unsent.deadline(output, unsent::patience(self.settings.inactivity_probe)),
        ];
        for deadline in
            self.reconnect.deadline(now).into_iter().chain(own).chain(limits.into_iter().flatten())
        {
            set.deadline(deadline);
        }
        for snooper in &self.snoopers {
            set.fd(&snooper.stream, snooper.interest());
        }
        let Some(stream) = &self.stream else { return };
        let Some(session) = &self.session else {
            let write = stream.connect_waits_for_write();
            set.fd(stream, if write { Interest::Write } else { Interest::Read });
            return;
        };
        let writes = session.output_len() > 0;
        let reads = session.backlog() < INPUT_MAX && session.output_len() < OUTPUT_MAX;
        match (reads, writes) {
            (true, true) => drop(set.fd(stream, Interest::Both)),
            (false, true) => drop(set.fd(stream, Interest::Write)),
            (_, false) => drop(set.fd(stream, Interest::Read)),
        }
        if self.left == 0 && session.output_len() < OUTPUT_MAX {
            set.wake_now();
        }
    }
}

/// "Protocol error" (errno(3)).
const EPROTO: i32 = 71;

impl Snooper {
    fn interest(&self) -> Interest {
        match self.session.output_len() {
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
        if self.session.output_len() < OUTPUT_MAX {
            match self.stream.read(&mut buffer) {
                Ok(0) => return false,
                Ok(n) => self.session.receive(buffer.get(..n).unwrap_or_default()),
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(_) => return false,
            }
        }
        // Messages of a snooper after its hello are ignored.
        while self.session.next_message().is_some() {}
        if self.session.state() == SessionState::Open && self.session.output_len() < OUTPUT_MAX {
            self.session.send_raw(copies);
        }
        self.session.failure().is_none() && self.session.flush(&mut self.stream).is_ok()
    }
}

/// Parses a target; a relative path is in the run directory.
pub(crate) fn parse(target: &str, rundir: &Path) -> Result<Target, String> {
    let parsed = Target::parse(target, transport::OPENFLOW_PORT).map_err(|e| e.to_string())?;
    Ok(parsed.within(rundir))
}
