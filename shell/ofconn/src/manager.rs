//! The connections of one bridge.
//!
//! A turn is `run` (accept, connect, read, time), `next_request` until it gives none, then `flush`. Requests come one at a
//! time, a bounded number of each connection in a turn, so that nobody starves; the caller answers each by the session of
//! its connection before it takes the next. A connection that is made again is a new one: its id is never used twice, and
//! roles, bundles and what it wanted to hear went with the old one.
//!
//! **Threads**: one, which owns the bridge.

use crate::conn::{Conn, parse};
use crate::listener::{Passive, Purpose};
use crate::session::{BUNDLE_IDLE, Session};
pub use crate::target::{ConnKind, ControllerTarget};
use openflow::session::Role;
use openflow::{Message, VersionSet};
use runtime::coverage::Counter;
use runtime::{Module, RateLimit, WaitSet};
use std::collections::BTreeMap;
use std::collections::btree_map::RangeMut;
use std::path::PathBuf;
use units::Millis;

static LOG: Module = Module::new("connmgr");
static LIMIT: RateLimit = RateLimit::new(60, 600);
/// Connections that were closed because the bridge had as many as it may have.
static REFUSED: Counter = Counter::new("ofconn_refused");

/// Connections that others made to one bridge: tools at most so many, and controllers as many. Each can hold some megabytes
/// of requests and replies, and a file descriptor of the daemon.
const ACCEPTED_MAX: usize = 256;
/// Connections to the snoop socket of one bridge.
const SNOOPERS_MAX: usize = 32;

/// A connection, from its first byte to its last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnId(pub u64);

/// What is wanted of a bridge's connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManagerConfig {
    /// Where the sockets are.
    pub rundir: PathBuf,
    /// Versions of OpenFlow that the bridge speaks.
    pub versions: VersionSet,
    /// Controllers.
    pub controllers: Vec<ControllerTarget>,
    /// Packet-ins that wait for a tool on the management socket at most.
    pub queue_size: usize,
    /// Actions for tests are accepted (`--enable-dummy`).
    pub debug_actions: bool,
}

/// A request of a connection.
#[derive(Debug)]
pub struct Request {
    /// Whose.
    pub conn: ConnId,
    /// What it asks.
    pub message: Message,
    /// The same as bytes, for errors.
    pub raw: Vec<u8>,
}

/// See the module.
#[derive(Debug, Default)]
pub struct ConnManager {
    bridge: String,
    versions: VersionSet,
    debug_actions: bool,
    queue_size: usize,
    bundle_idle: Option<Millis>,
    passive: Vec<Passive>,
    /// Targets that could not be used, with the reason, as far as it was logged already.
    refused: BTreeMap<String, String>,
    pub(crate) conns: BTreeMap<ConnId, Conn>,
    /// Whose turn it is next.
    next_turn: ConnId,
    /// The caller has ended the turn before it had all requests.
    postponed: bool,
    next_id: u64,
    pub(crate) generation_id: Option<u64>,
}

impl ConnManager {
    /// No connections yet; `bridge` names the sockets.
    pub fn new(bridge: &str) -> ConnManager {
        ConnManager { bridge: bridge.to_owned(), ..ConnManager::default() }
    }
}

impl ConnManager {
    /// Takes over a configuration. What did not change goes on undisturbed. The texts say what could not be done; a target
    /// that cannot be listened on is tried again at the next call.
    pub fn configure(&mut self, config: &ManagerConfig, now: Millis) -> Vec<String> {
        if self.versions != config.versions {
            // Agreed versions may be wrong now: everybody has to say hello again.
            self.reconnect_all();
            self.passive.clear();
            self.versions = config.versions;
        }
        self.debug_actions = config.debug_actions;
        self.queue_size = config.queue_size;
        for conn in self.conns.values_mut().filter(|c| c.kind == ConnKind::Service) {
            conn.settings.queue_size = config.queue_size;
        }
        let mut errors = Vec::new();
        self.remove_unwanted(&config.controllers);
        let socket = |suffix: &str| format!("punix:{}.{suffix}", self.bridge);
        let (service, snoop) = (socket("mgmt"), socket("snoop"));
        let versions = config.versions;
        self.listen(Purpose::Service, &service, versions, config, &mut errors);
        self.listen(Purpose::Snoop, &snoop, VersionSet::ALL, config, &mut errors);
        for controller in &config.controllers {
            self.configure_controller(controller, config, now, &mut errors);
        }
        errors
    }

    fn remove_unwanted(&mut self, wanted: &[ControllerTarget]) {
        let is_wanted = |target: &str| wanted.iter().any(|c| c.target == target);
        let gone: Vec<String> = self.controller_targets().into_iter().filter(|t| !is_wanted(t)).collect();
        for target in gone {
            runtime::info!(LOG, "{}: removed primary controller \"{target}\"", self.bridge);
            self.passive.retain(|p| p.target != target);
            self.conns.retain(|_, c| c.settings.target != target);
        }
        self.refused.retain(|t, _| is_wanted(t));
    }

    /// Targets of controllers that are there, connected or not.
    fn controller_targets(&self) -> Vec<String> {
        let passive = self.passive.iter().filter(|p| matches!(p.purpose, Purpose::Controller(_)));
        let active = self.conns.values().filter(|c| c.is_active());
        passive.map(|p| p.target.clone()).chain(active.map(|c| c.settings.target.clone())).collect()
    }

    fn configure_controller(
        &mut self,
        controller: &ControllerTarget,
        config: &ManagerConfig,
        now: Millis,
        errors: &mut Vec<String>,
    ) {
        let name = controller.target.as_str();
        for conn in self.conns.values_mut().filter(|c| c.settings.target == name) {
            conn.configure(controller.clone());
        }
        let target = match parse(name, &config.rundir) {
            Ok(target) => target,
            Err(e) => return self.refuse(name, e, errors),
        };
        if target.is_passive() {
            let purpose = Purpose::Controller(controller.clone());
            if self.listen(purpose, name, config.versions, config, errors) {
                runtime::info!(LOG, "{}: added primary controller \"{name}\"", self.bridge);
            }
        } else if !self.conns.values().any(|c| c.is_active() && c.settings.target == name) {
            runtime::info!(LOG, "{}: added primary controller \"{name}\"", self.bridge);
            let conn = Conn::active(&self.bridge, controller.clone(), target, config.versions, now);
            self.insert(conn);
        }
        self.refused.remove(name);
    }

    /// Sees to it that a socket listens. True if it does so from now on.
    fn listen(
        &mut self,
        purpose: Purpose,
        target: &str,
        versions: VersionSet,
        config: &ManagerConfig,
        errors: &mut Vec<String>,
    ) -> bool {
        if let Some(there) = self.passive.iter_mut().find(|p| p.target == target) {
            there.purpose = purpose;
            return false;
        }
        match Passive::bind(purpose, target, versions, &config.rundir) {
            Ok(passive) => {
                self.passive.push(passive);
                true
            }
            Err(e) => {
                self.refuse(target, e, errors);
                false
            }
        }
    }

    /// Says why a target cannot be used, once.
    fn refuse(&mut self, target: &str, why: String, errors: &mut Vec<String>) {
        if self.refused.get(target) != Some(&why) {
            runtime::err!(LOG, "{}: {why}", self.bridge);
            self.refused.insert(target.to_owned(), why.clone());
        }
        errors.push(why);
    }

    fn insert(&mut self, conn: Conn) -> ConnId {
        self.next_id += 1;
        let id = ConnId(self.next_id);
        self.conns.insert(id, conn);
        id
    }

    /// Begins a turn: accepts, connects, reads, does what is due.
    pub fn run(&mut self, now: Millis) {
        self.accept(now);
        self.postponed = false;
        let mut renew = Vec::new();
        for (id, conn) in &mut self.conns {
            let was_open = conn.is_open();
            conn.run(now);
            if let Some(session) = &mut conn.session {
                session.dialect.debug_actions = self.debug_actions;
                session.bundle_idle = self.bundle_idle.unwrap_or(BUNDLE_IDLE);
            }
            if was_open && !conn.is_open() && conn.is_active() {
                renew.push(*id);
            }
        }
        for id in renew {
            self.renew(id);
        }
    }

    /// A connection that was lost and will be made again becomes another.
    fn renew(&mut self, id: ConnId) {
        if let Some(conn) = self.conns.remove(&id) {
            self.insert(conn);
        }
    }

    fn accept(&mut self, now: Millis) {
        let mut new = Vec::new();
        let mut snoopers = Vec::new();
        for passive in &self.passive {
            for stream in passive.accept() {
                let (kind, settings) = match &passive.purpose {
                    Purpose::Service => (ConnKind::Service, ControllerTarget::service(self.queue_size)),
                    Purpose::Controller(c) => (ConnKind::Controller, c.clone()),
                    Purpose::Snoop => {
                        snoopers.push(stream);
                        continue;
                    }
                };
                new.push(Conn::accepted(&self.bridge, kind, stream, settings, passive.versions, now));
            }
        }
        for conn in new {
            let of_kind = self.conns.values().filter(|c| c.kind == conn.kind && !c.is_active()).count();
            if of_kind >= ACCEPTED_MAX {
                // The oldest may be in use: the newest is the one that goes.
                REFUSED.hit();
                runtime::warn_rl!(
                    LOG,
                    LIMIT,
                    "{}: closed, {of_kind} others are there",
                    conn.reconnect.name()
                );
                continue;
            }
            self.insert(conn);
        }
        for stream in snoopers {
            let snoopers: usize = self.conns.values().map(Conn::snoopers).sum();
            if snoopers >= SNOOPERS_MAX {
                REFUSED.hit();
                runtime::warn_rl!(LOG, LIMIT, "{}: snooper closed, {snoopers} others are there", self.bridge);
                continue;
            }
            match self.best_to_snoop() {
                Some(conn) => conn.add_snooper(stream),
                None => {
                    runtime::log_rl!(
                        LOG,
                        LIMIT,
                        runtime::log::Level::Info,
                        "no controller connection to snoop"
                    );
                }
            }
        }
    }

    /// The next request. `None` ends the turn.
    pub fn next_request(&mut self, now: Millis) -> Option<Request> {
        let from = self.next_turn;
        let mut next = |conns: RangeMut<'_, ConnId, Conn>| {
            for (&conn, c) in conns {
                if let Some((message, raw)) = c.next_message(now) {
                    self.next_turn = ConnId(conn.0 + 1);
                    return Some(Request { conn, message, raw });
                }
            }
            None
        };
        next(self.conns.range_mut(from..)).or_else(|| next(self.conns.range_mut(..from)))
    }

    /// There may be more requests in this turn, but they wait for the next one, which begins at once.
    pub fn postpone(&mut self) {
        self.postponed = true;
    }

    /// Ends a turn: writes answers, forgets those who are gone.
    pub fn flush(&mut self, now: Millis) {
        let mut renew = Vec::new();
        for (id, conn) in &mut self.conns {
            let had = conn.session.is_some();
            conn.flush(now);
            conn.log();
            if had && conn.session.is_none() && conn.is_active() {
                renew.push(*id);
            }
        }
        renew.into_iter().for_each(|id| self.renew(id));
        self.conns.retain(|_, c| !c.is_over());
    }

    /// What ends the next sleep.
    pub fn wait<'a>(&'a self, set: &mut WaitSet<'a>, now: Millis) {
        self.passive.iter().for_each(|p| p.wait(set));
        self.conns.values().for_each(|c| c.wait(set, now));
        if self.postponed {
            set.wake_now();
        }
    }

    /// Bundles that are not used for so long are forgotten; `None`: as long as is usual.
    pub fn set_bundle_idle(&mut self, idle: Option<Millis>) {
        self.bundle_idle = idle;
    }

    /// Ends every connection; those that we make are made again (`bridge/reconnect`).
    pub fn reconnect_all(&mut self) {
        self.conns.values_mut().for_each(|c| c.reconnect.force_reconnect());
    }

    /// The session of a connection, while it is up.
    pub fn session(&mut self, id: ConnId) -> Option<&mut Session> {
        self.conns.get_mut(&id).and_then(Conn::open_session)
    }

    /// All sessions that are up.
    pub fn sessions(&mut self) -> impl Iterator<Item = (ConnId, &mut Session)> {
        self.conns.iter_mut().filter_map(|(id, c)| Some((*id, c.open_session()?)))
    }

    /// While they are held, connections get answers to their probes only.
    pub fn hold(&mut self, held: impl Fn(ConnId) -> bool) {
        self.sessions().for_each(|(id, session)| session.busy = held(id));
    }

    /// What waits to be written to a connection, in bytes.
    pub fn output_len(&self, id: ConnId) -> usize {
        self.conns.get(&id).and_then(|c| c.session.as_ref()).map_or(0, Session::output_len)
    }

    /// The name of its bridge.
    pub fn bridge(&self) -> &str {
        &self.bridge
    }

    /// Whether controllers are configured at all.
    pub fn has_controllers(&self) -> bool {
        !self.controller_targets().is_empty() || !self.refused.is_empty()
    }
}

impl ConnManager {
    /// The connection that a snooper sees: of the controllers that we connect to, the most powerful.
    fn best_to_snoop(&mut self) -> Option<&mut Conn> {
        let rank = |c: &Conn| match c.session.as_ref().filter(|_| c.is_open()).map(|s| s.role) {
            Some(Role::Primary) => 3,
            Some(Role::Equal) => 2,
            Some(Role::Secondary) => 1,
            Some(Role::NoChange) | None => 0,
        };
        self.conns.values_mut().filter(|c| c.is_active()).max_by_key(|c| rank(c))
    }
}
