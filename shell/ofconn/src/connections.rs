//! The connections of one bridge, as the main loop sees them.
//!
//! A turn is `run`, `next_request` until it returns `None`, then `flush`. `next_request` returns one request at a time, a bounded number
//! per connection and turn, so that no connection starves. The caller answers each request through the session of its connection before
//! it calls `next_request` again. Roles, bundles and subscriptions end with their connection.
//!
//! **Threads**: the thread that owns the bridge. It reaches the sockets through a [`SocketAccess`].

use crate::batch::Incoming;
use crate::command::{ConnId, Event};
use crate::conn_settings::{ConnectionsConfig, is_passive};
use crate::request_content::Content;
use crate::session::{BUNDLE_IDLE, Session};
use crate::socket_access::SocketAccess;
use crate::thread::SocketThread;
use crate::waiting_bytes::OUTPUT_MAX;
use openflow::{Version, Xid};
use runtime::WaitSet;
use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};
use units::Millis;

/// Maximum number of requests of one connection that are executed per turn. It is large, so that the fixed cost of a turn is small per
/// request.
const TURN_MAX: u32 = 256;

/// Number of ended connections whose remaining requests are still executed. The requests of further ended connections are discarded,
/// so that a client which connects, sends requests and disconnects again and again cannot fill the memory.
const ENDED_MAX: usize = 64;

/// A request received on a connection.
#[derive(Debug)]
pub struct Request {
    /// The connection.
    pub conn: ConnId,
    /// The OpenFlow version of the connection.
    pub version: Version,
    /// The transaction id.
    pub xid: Xid,
    /// The decoded request.
    pub content: Content,
    /// The request's bytes, which errors quote.
    pub raw: Vec<u8>,
}

/// The connections of one bridge.
#[derive(Debug)]
pub struct Connections {
    bridge: String,
    pub(crate) socket_access: SocketAccess,
    /// The last configuration, if it was applied without an error.
    applied: Option<ConnectionsConfig>,
    debug_actions: bool,
    /// Targets of the configured controllers.
    pub(crate) controllers: Vec<String>,
    bundle_idle: Millis,
    pub(crate) sessions: BTreeMap<ConnId, Session>,
    /// The connection whose request is returned next.
    next_turn: ConnId,
    /// The caller ended the turn before all requests were executed.
    postponed: bool,
    /// Reused allocation for the bytes of the next request.
    raw: Vec<u8>,
    /// The newest generation id in a role request (OpenFlow 1.3.5 §6.3.6).
    pub(crate) generation_id: Option<u64>,
}

impl Connections {
    /// No connections yet; `bridge` names the sockets. The caller's thread serves the sockets.
    pub fn new(bridge: &str) -> Connections {
        Connections::with_socket_access(bridge, SocketAccess::local(bridge))
    }

    /// No connections yet. The thread `serving` serves the sockets.
    pub fn served_by(bridge: &str, serving: &SocketThread) -> Connections {
        Connections::with_socket_access(bridge, SocketAccess::shared(bridge, serving))
    }

    fn with_socket_access(bridge: &str, socket_access: SocketAccess) -> Connections {
        Connections {
            bridge: bridge.to_owned(),
            socket_access,
            applied: None,
            debug_actions: false,
            controllers: Vec::new(),
            bundle_idle: BUNDLE_IDLE,
            sessions: BTreeMap::new(),
            next_turn: ConnId::default(),
            postponed: false,
            raw: Vec::new(),
            generation_id: None,
        }
    }

    /// Applies a configuration. Unchanged connections stay open. Returns error texts; the next call tries again to listen on a target
    /// where that failed.
    pub fn configure(&mut self, config: &ConnectionsConfig, now: Millis) -> Vec<String> {
        if self.applied.as_ref() == Some(config) {
            return Vec::new();
        }
        self.debug_actions = config.debug_actions;
        self.controllers = config.controllers.iter().map(|c| c.target.clone()).collect();
        let wanted = config.clone();
        let errors =
            self.socket_access.call(move |sockets| sockets.configure(&wanted, now)).unwrap_or_default();
        self.applied = errors.is_empty().then(|| config.clone());
        self.handle_events();
        errors
    }

    /// Whether a turn would do nothing: no event, request, reply or deadline is due. Always false in dummy mode, where only a turn reads the
    /// sockets.
    pub fn is_idle(&self, now: Millis) -> bool {
        let is_idle = |session: &Session| {
            session.queues.is_idle(session.busy)
                && session.deadline(self.bundle_idle).is_none_or(|deadline| now < deadline)
        };
        !self.socket_access.is_local()
            && !self.postponed
            && !self.socket_access.has_events()
            && self.sessions.values().all(is_idle)
    }

    /// Begins a turn: handles events of the sockets, runs timers.
    pub fn run(&mut self, now: Millis) {
        self.postponed = false;
        self.socket_access.run(now);
        self.handle_events();
        let idle = self.bundle_idle;
        for session in self.sessions.values_mut() {
            session.queues.turn_quota = TURN_MAX;
            session.queues.awaits_written = false;
            session.expire_bundles(idle, now);
            session.report_flow_mods(now);
        }
    }

    /// Handles events of the sockets. Returns whether there were any.
    fn handle_events(&mut self) -> bool {
        let events = self.socket_access.take_events();
        let any = !events.is_empty();
        let mut ended = self.sessions.values().filter(|s| s.queues.has_ended).count();
        for (id, event) in events {
            if let Event::Opened(opened) = event {
                self.sessions.insert(id, Session::new(*opened, self.debug_actions));
                continue;
            }
            let Some(session) = self.sessions.get_mut(&id) else { continue };
            match event {
                Event::Requests(batch) => session.queues.receive(batch),
                Event::PartsSent => session.queues.parts_sent(),
                Event::Closed => {
                    session.queues.end(ended < ENDED_MAX);
                    ended += 1;
                }
                Event::Opened(_) => {}
            }
        }
        any
    }

    /// The next request. `None` ends the turn.
    pub fn next_request(&mut self, now: Millis) -> Option<Request> {
        self.next_of_all(now).or_else(|| self.handle_events().then(|| self.next_of_all(now)).flatten())
    }

    /// The next request; connections take turns.
    fn next_of_all(&mut self, now: Millis) -> Option<Request> {
        let at_or_after = self.sessions.range(self.next_turn..).next();
        let first = *at_or_after.or(self.sessions.first_key_value())?.0;
        let mut id = first;
        loop {
            if let Some(request) = self.next_of(id, now) {
                self.next_turn = ConnId(id.0 + 1);
                return Some(request);
            }
            let after = self.sessions.range((Excluded(id), Unbounded)).next();
            id = *after.or(self.sessions.first_key_value())?.0;
            if id == first {
                return None;
            }
        }
    }

    /// The next request of a connection. `None`: the connection has no request, has used up its quota of this turn, is held, or has much
    /// unwritten output.
    fn next_of(&mut self, id: ConnId, now: Millis) -> Option<Request> {
        loop {
            let session = self.sessions.get_mut(&id).filter(|s| s.queues.turn_quota > 0)?;
            if self.socket_access.is_local() {
                // Encode the replies so far: they precede the output of the next decoded message, and must count in `output_len`.
                self.socket_access.collect(id, session.queues.take_outgoing());
                self.socket_access.deliver(now);
            }
            if session.output_len() >= OUTPUT_MAX && !session.queues.has_ended {
                session.queues.turn_quota = 0;
                return None;
            }
            if !session.queues.has_incoming() && self.socket_access.decode(id) {
                self.handle_events();
            }
            let session = self.sessions.get_mut(&id).filter(|s| !s.busy)?;
            let Some((incoming, must_wake_sockets)) = session.queues.take_incoming(&mut self.raw) else {
                session.queues.turn_quota = TURN_MAX;
                return None;
            };
            if must_wake_sockets {
                self.socket_access.wake();
            }
            match incoming {
                Incoming::Request(version, xid, content) => {
                    session.queues.turn_quota -= 1;
                    let raw = std::mem::take(&mut self.raw);
                    return Some(Request { conn: id, version, xid, content, raw });
                }
                Incoming::Refused(reply) => session.send(*reply),
            }
        }
    }

    /// Reuses the allocation of an executed request's bytes for the next request.
    pub fn reuse(&mut self, raw: Vec<u8>) {
        self.raw = raw;
    }

    /// Records that the caller ends the turn although requests may be left. The next turn begins at once and executes them.
    pub fn postpone(&mut self) {
        self.postponed = true;
    }

    /// Ends a turn: hands replies to the sockets, removes closed connections.
    pub fn flush(&mut self, now: Millis) {
        for (id, session) in &mut self.sessions {
            session.queues.waiting_bytes.set_role(session.role);
            self.socket_access.collect(*id, session.queues.take_outgoing());
        }
        self.socket_access.deliver(now);
        self.socket_access.flush(now);
        self.handle_events();
        // A busy connection that has ended is removed, too: the result of its long job has no receiver. But if only a long reply was being
        // sent, the requests after it are executed.
        let is_at_work = |s: &Session| s.busy && s.queues.long_replies == 0;
        let is_over = |s: &Session| s.queues.has_ended && (is_at_work(s) || !s.queues.has_incoming());
        self.sessions.retain(|_, session| {
            if is_over(session) {
                session.report_flow_mods(now);
            }
            !is_over(session)
        });
    }

    /// Adds the file descriptors and deadlines that end the next sleep.
    pub fn wait<'a>(&'a self, set: &mut WaitSet<'a>, now: Millis) {
        self.socket_access.wait(set, now);
        for session in self.sessions.values() {
            let queues = &session.queues;
            session.deadline(self.bundle_idle).into_iter().for_each(|deadline| set.deadline(deadline));
            let has_requests = queues.turn_quota == 0 || queues.has_incoming() && !session.busy;
            let can_execute =
                has_requests && (queues.has_ended || queues.waiting_bytes.await_written(OUTPUT_MAX - 1));
            let is_written = queues.awaits_written && queues.waiting_bytes.await_written(0);
            if can_execute || is_written || queues.has_outgoing() {
                set.wake_now();
            }
        }
        if self.postponed {
            set.wake_now();
        }
    }

    /// Sets the time after which unused bundles are discarded; `None` sets the default.
    pub fn set_bundle_idle(&mut self, idle: Option<Millis>) {
        self.bundle_idle = idle.unwrap_or(BUNDLE_IDLE);
    }

    /// Closes all connections and reopens those that the switch opens (`bridge/reconnect`).
    pub fn reconnect_all(&mut self) {
        self.socket_access.call(|sockets| sockets.reconnect_all());
    }

    /// The session of a connection.
    pub fn session(&mut self, id: ConnId) -> Option<&mut Session> {
        self.sessions.get_mut(&id)
    }

    /// All sessions, including those of ended connections with requests to execute.
    pub fn sessions(&mut self) -> impl Iterator<Item = (ConnId, &mut Session)> {
        self.sessions.iter_mut().map(|(id, session)| (*id, session))
    }

    /// Sets for each connection whether its requests are held. On a held connection only echo requests are answered.
    pub fn hold(&mut self, held: impl Fn(ConnId) -> bool) {
        self.sessions().for_each(|(id, session)| session.busy = held(id));
    }

    /// Bytes that wait to be written to a connection, including those of the messages queued last.
    pub fn output_len(&mut self, id: ConnId, now: Millis) -> usize {
        let Some(session) = self.sessions.get_mut(&id) else { return 0 };
        if self.socket_access.is_local() {
            // Encode the queued messages now, so that the number is exact and not estimated.
            self.socket_access.collect(id, session.queues.take_outgoing());
            self.socket_access.deliver(now);
        }
        session.output_len()
    }

    /// Ends the next sleep when all output of a connection is written.
    pub fn await_written(&mut self, id: ConnId) {
        self.session(id).into_iter().for_each(|s| s.queues.awaits_written = true);
    }

    /// Whether all output of a connection is written.
    pub fn is_written(&self, id: ConnId) -> bool {
        self.sessions.get(&id).is_none_or(|s| s.output_len() == 0)
    }

    /// Whether parts of a long reply to a connection are left.
    pub fn is_sending(&self, id: ConnId) -> bool {
        self.sessions.get(&id).is_some_and(Session::is_sending)
    }

    /// The number of open connections, and the sum of the bytes that wait to be written to them.
    pub fn open_counts(&self) -> (usize, usize) {
        let open = self.sessions.values().filter(|s| !s.queues.has_ended);
        open.fold((0, 0), |(n, bytes), session| (n + 1, bytes + session.output_len()))
    }

    /// The controllers that the switch connects to, and whether they are connected.
    pub fn controllers(&self) -> impl Iterator<Item = (&str, bool)> {
        let is_up = |target: &str| {
            let mut sessions = self.sessions.values();
            sessions.any(|s| !s.queues.has_ended && s.target.as_deref() == Some(target))
        };
        let active = self.controllers.iter().filter(|target| !is_passive(target));
        active.map(move |target| (target.as_str(), is_up(target)))
    }

    /// The name of the bridge.
    pub fn bridge(&self) -> &str {
        &self.bridge
    }

    /// Whether the switch connects to controllers. Clients of passive targets do not count: the switch cannot know whether any will come.
    pub fn has_controllers(&self) -> bool {
        self.controllers.iter().any(|target| !is_passive(target))
    }

    /// Whether a controller to which the switch connects is connected. Without one, the bridge may have to forward on its own (`fail_mode`).
    pub fn any_connected(&self) -> bool {
        self.sessions.values().any(|s| !s.is_service && !s.queues.has_ended)
    }
}
