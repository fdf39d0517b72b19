//! The connections of one bridge, on the side of the main loop.
//!
//! A turn is `run`, `next_request` until it returns `None`, then `flush`. Requests come one at a time, a bounded number of each
//! connection per turn, so that no connection starves; the caller answers each through the session of its connection before it
//! takes the next. Roles, bundles and subscriptions end with their connection.
//!
//! **Threads**: one, which owns the bridge. The sockets are behind a [`Link`].

use crate::backlog::OUTPUT_MAX;
use crate::batch::Incoming;
use crate::link::Link;
use crate::order::{ConnId, Event};
use crate::request::Content;
use crate::session::{BUNDLE_IDLE, Session};
use crate::target::{ManagerConfig, is_passive};
use crate::thread::Serving;
use openflow::{Version, Xid};
use runtime::WaitSet;
use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};
use units::Millis;

/// Messages of one connection per turn: enough to make the cost of a turn small.
const TURN_MAX: u32 = 256;

/// Connections that have ended and whose requests are still executed. The requests of further ones are discarded, so that a client
/// which connects, sends requests and disconnects again and again does not fill the memory.
const ENDED_MAX: usize = 64;

/// A request received on a connection.
#[derive(Debug)]
pub struct Request {
    /// The connection.
    pub conn: ConnId,
    /// Its version.
    pub version: Version,
    /// Its transaction id.
    pub xid: Xid,
    /// What it asks for.
    pub content: Content,
    /// The request's bytes, which errors quote.
    pub raw: Vec<u8>,
}

/// The connections of one bridge.
#[derive(Debug)]
pub struct ConnManager {
    bridge: String,
    pub(crate) link: Link,
    /// The configuration in force, if there was no error.
    applied: Option<ManagerConfig>,
    debug_actions: bool,
    /// Targets of controllers.
    pub(crate) controllers: Vec<String>,
    bundle_idle: Millis,
    pub(crate) sessions: BTreeMap<ConnId, Session>,
    /// The connection that is served next.
    next_turn: ConnId,
    /// The caller ended the turn before it had taken all requests.
    postponed: bool,
    /// For the bytes of the next request.
    raw: Vec<u8>,
    pub(crate) generation_id: Option<u64>,
}

impl ConnManager {
    /// No connections yet; `bridge` names the sockets. They are served by the caller's thread.
    pub fn new(bridge: &str) -> ConnManager {
        ConnManager::with_link(bridge, Link::here(bridge))
    }

    /// As `new`: the sockets are served by a thread of their own.
    pub fn served_by(bridge: &str, serving: &Serving) -> ConnManager {
        ConnManager::with_link(bridge, Link::elsewhere(bridge, serving))
    }

    fn with_link(bridge: &str, link: Link) -> ConnManager {
        ConnManager {
            bridge: bridge.to_owned(),
            link,
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

    /// Applies a configuration. Unchanged connections stay. Returns error texts; a target that cannot be listened on
    /// is tried again at the next call.
    pub fn configure(&mut self, config: &ManagerConfig, now: Millis) -> Vec<String> {
        if self.applied.as_ref() == Some(config) {
            return Vec::new();
        }
        self.debug_actions = config.debug_actions;
        self.controllers = config.controllers.iter().map(|c| c.target.clone()).collect();
        let wanted = config.clone();
        let errors = self.link.call(move |sockets| sockets.configure(&wanted, now)).unwrap_or_default();
        self.applied = errors.is_empty().then(|| config.clone());
        self.take_events();
        errors
    }

    /// Begins a turn: takes news of the sockets, runs timers.
    pub fn run(&mut self, now: Millis) {
        self.postponed = false;
        self.link.run(now);
        self.take_events();
        let idle = self.bundle_idle;
        for session in self.sessions.values_mut() {
            session.queues.left = TURN_MAX;
            session.queues.awaits_written = false;
            session.expire_bundles(idle, now);
            session.report_flow_mods(now);
        }
    }

    /// Takes news of the sockets. Returns whether there were any.
    fn take_events(&mut self) -> bool {
        let events = self.link.take_events();
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
        self.next_of_all(now).or_else(|| self.take_events().then(|| self.next_of_all(now)).flatten())
    }

    /// The next request of the connections in turn.
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

    /// The next request of a connection, until this turn's share is used up.
    fn next_of(&mut self, id: ConnId, now: Millis) -> Option<Request> {
        loop {
            let session = self.sessions.get_mut(&id).filter(|s| s.queues.left > 0)?;
            if self.link.is_here() {
                // Replies so far come before what is decoded next, and its output counts.
                self.link.order(id, session.queues.take_outgoing());
                self.link.deliver(now);
            }
            if session.output_len() >= OUTPUT_MAX && !session.queues.has_ended {
                session.queues.left = 0;
                return None;
            }
            if !session.queues.has_incoming() && self.link.decode(id) {
                self.take_events();
            }
            let session = self.sessions.get_mut(&id).filter(|s| !s.busy)?;
            let Some((incoming, is_awaited)) = session.queues.take_incoming(&mut self.raw) else {
                session.queues.left = TURN_MAX;
                return None;
            };
            if is_awaited {
                self.link.wake();
            }
            match incoming {
                Incoming::Request(version, xid, content) => {
                    session.queues.left -= 1;
                    let raw = std::mem::take(&mut self.raw);
                    return Some(Request { conn: id, version, xid, content, raw });
                }
                Incoming::Refused(reply) => session.send(*reply),
            }
        }
    }

    /// Takes back the memory of a request's bytes for the next request.
    pub fn reuse(&mut self, raw: Vec<u8>) {
        self.raw = raw;
    }

    /// Ends the turn although requests may be left; they are served in the next one, which begins at once.
    pub fn postpone(&mut self) {
        self.postponed = true;
    }

    /// Ends a turn: hands replies to the sockets, removes closed connections.
    pub fn flush(&mut self, now: Millis) {
        for (id, session) in &mut self.sessions {
            session.queues.backlog.set_role(session.role);
            self.link.order(*id, session.queues.take_outgoing());
        }
        self.link.deliver(now);
        self.link.flush(now);
        self.take_events();
        // If a connection ends during a long job, the result has no receiver.
        let is_over = |s: &Session| s.queues.has_ended && (s.busy || !s.queues.has_incoming());
        self.sessions.retain(|_, session| {
            if is_over(session) {
                session.report_flow_mods(now);
            }
            !is_over(session)
        });
    }

    /// Adds what ends the next sleep.
    pub fn wait<'a>(&'a self, set: &mut WaitSet<'a>, now: Millis) {
        self.link.wait(set, now);
        for session in self.sessions.values() {
            let queues = &session.queues;
            session.deadline(self.bundle_idle).into_iter().for_each(|deadline| set.deadline(deadline));
            let is_left = queues.left == 0 || queues.has_incoming() && !session.busy;
            let goes_on = is_left && (queues.has_ended || queues.backlog.await_written(OUTPUT_MAX - 1));
            let is_written = queues.awaits_written && queues.backlog.await_written(0);
            if goes_on || is_written || queues.has_outgoing() {
                set.wake_now();
            }
        }
        if self.postponed {
            set.wake_now();
        }
    }

    /// Sets the time after which unused bundles are discarded; `None`: the default.
    pub fn set_bundle_idle(&mut self, idle: Option<Millis>) {
        self.bundle_idle = idle.unwrap_or(BUNDLE_IDLE);
    }

    /// Ends all connections; active ones are reconnected (`bridge/reconnect`).
    pub fn reconnect_all(&mut self) {
        self.link.call(|sockets| sockets.reconnect_all());
    }

    /// The session of a connection that is up.
    pub fn session(&mut self, id: ConnId) -> Option<&mut Session> {
        self.sessions.get_mut(&id)
    }

    /// All sessions that are up.
    pub fn sessions(&mut self) -> impl Iterator<Item = (ConnId, &mut Session)> {
        self.sessions.iter_mut().map(|(id, session)| (*id, session))
    }

    /// Holds connections: while held, only their echo requests are answered.
    pub fn hold(&mut self, held: impl Fn(ConnId) -> bool) {
        self.sessions().for_each(|(id, session)| session.busy = held(id));
    }

    /// Bytes that wait to be written to a connection, including those of the messages queued last.
    pub fn output_len(&mut self, id: ConnId, now: Millis) -> usize {
        let Some(session) = self.sessions.get_mut(&id) else { return 0 };
        if self.link.is_here() {
            // The exact number, where it costs nothing.
            self.link.order(id, session.queues.take_outgoing());
            self.link.deliver(now);
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

    /// The number of open connections, and the bytes that wait to be written to them.
    pub fn open_counts(&self) -> (usize, usize) {
        let open = self.sessions.values().filter(|s| !s.queues.has_ended);
        open.fold((0, 0), |(n, bytes), session| (n + 1, bytes + session.output_len()))
    }

    /// The controllers that we connect to, and whether they are connected.
    pub fn controllers(&self) -> impl Iterator<Item = (&str, bool)> {
        let is_up = |target: &str| {
            let mut sessions = self.sessions.values();
            sessions.any(|s| !s.queues.has_ended && s.target.as_deref() == Some(target))
        };
        let active = self.controllers.iter().filter(|target| !is_passive(target));
        active.map(move |target| (target.as_str(), is_up(target)))
    }

    /// The name of its bridge.
    pub fn bridge(&self) -> &str {
        &self.bridge
    }

    /// Whether controllers are configured.
    pub fn has_controllers(&self) -> bool {
        !self.controllers.is_empty()
    }

    /// Whether a controller is connected, so that the bridge need not act on its own.
    pub fn any_connected(&self) -> bool {
        self.sessions.values().any(|s| !s.service && !s.queues.has_ended)
    }
}
