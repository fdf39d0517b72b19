//! The connections of one bridge.
//!
//! An iteration is `run` (accept, connect, read, timers), `next_request` until it returns `None`, then `flush`.
//! Requests come one at a time, a bounded number of each connection per iteration, so that no connection starves; the
//! caller answers each through the session of its connection before it takes the next. A reconnected connection has a
//! new id; ids are never reused, and roles, bundles and subscriptions of the old one are gone.
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
/// Connections that were closed because the bridge has its maximum.
static REFUSED: Counter = Counter::new("ofconn_refused");

/// Connections to one bridge that tools opened, and as many that controllers opened. Each can use some megabytes for
/// requests and replies, and a file descriptor of the daemon.
const ACCEPTED_MAX: usize = 256;
/// Connections to the snoop socket of one bridge.
const SNOOPERS_MAX: usize = 32;

/// Identifies a connection from its establishment to its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnId(pub u64);

/// Configuration of a bridge's connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManagerConfig {
    /// Directory of the sockets.
    pub rundir: PathBuf,
    /// OpenFlow versions of the bridge.
    pub versions: VersionSet,
    /// Controllers.
    pub controllers: Vec<ControllerTarget>,
    /// Packet-ins that may wait for a tool on the management socket.
    pub queue_size: usize,
    /// Accept actions for tests (`--enable-dummy`).
    pub debug_actions: bool,
}

/// A request received on a connection.
#[derive(Debug)]
pub struct Request {
    /// The connection.
    pub conn: ConnId,
    /// The request.
    pub message: Message,
    /// The request's bytes, which errors quote.
    pub raw: Vec<u8>,
}

/// The connections of one bridge.
#[derive(Debug, Default)]
pub struct ConnManager {
    bridge: String,
    versions: VersionSet,
    debug_actions: bool,
    queue_size: usize,
    bundle_idle: Option<Millis>,
    passive: Vec<Passive>,
    /// Targets that cannot be used, with the reason that was logged.
    refused: BTreeMap<String, String>,
    pub(crate) conns: BTreeMap<ConnId, Conn>,
    /// The connection that is served next.
    next_turn: ConnId,
    /// The caller ended the iteration before it had taken all requests.
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
    /// Applies a configuration. Unchanged connections stay. Returns error texts; a target that cannot be listened on
    /// is tried again at the next call.
    pub fn configure(&mut self, config: &ManagerConfig, now: Millis) -> Vec<String> {
        if self.versions != config.versions {
            // The agreed versions may no longer be allowed: every connection has to negotiate again.
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

    /// Targets of existing controllers, connected or not.
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

    /// Makes a socket listen unless it does. Returns whether it began now.
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

    /// Reports once why a target cannot be used.
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

    /// Begins an iteration: accepts, connects, reads, runs timers.
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

    /// Gives a lost connection that will be reconnected a new id.
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
                // Older connections may be in use, so the new one is closed.
                REFUSED.hit();
                runtime::warn_rl!(
                    LOG,
                    LIMIT,
                    "{}: closed, because {of_kind} other connections are open",
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
                runtime::warn_rl!(
                    LOG,
                    LIMIT,
                    "{}: snooper closed, because {snoopers} others are connected",
                    self.bridge
                );
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

    /// Ends the iteration although requests may be left; they are served in the next one, which begins at once.
    pub fn postpone(&mut self) {
        self.postponed = true;
    }

    /// Ends an iteration: writes replies, removes closed connections.
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

    /// Adds what ends the next sleep.
    pub fn wait<'a>(&'a self, set: &mut WaitSet<'a>, now: Millis) {
        self.passive.iter().for_each(|p| p.wait(set));
        self.conns.values().for_each(|c| c.wait(set, now));
        if self.postponed {
            set.wake_now();
        }
    }

    /// Sets the time after which unused bundles are discarded; `None`: the default.
    pub fn set_bundle_idle(&mut self, idle: Option<Millis>) {
        self.bundle_idle = idle;
    }

    /// Ends all connections; active ones are reconnected (`bridge/reconnect`).
    pub fn reconnect_all(&mut self) {
        self.conns.values_mut().for_each(|c| c.reconnect.force_reconnect());
    }

    /// The session of a connection that is up.
    pub fn session(&mut self, id: ConnId) -> Option<&mut Session> {
        self.conns.get_mut(&id).and_then(Conn::open_session)
    }

    /// All sessions that are up.
    pub fn sessions(&mut self) -> impl Iterator<Item = (ConnId, &mut Session)> {
        self.conns.iter_mut().filter_map(|(id, c)| Some((*id, c.open_session()?)))
    }

    /// Holds connections: while held, only their echo requests are answered.
    pub fn hold(&mut self, held: impl Fn(ConnId) -> bool) {
        self.sessions().for_each(|(id, session)| session.busy = held(id));
    }

    /// Bytes that wait to be written to a connection.
    pub fn output_len(&self, id: ConnId) -> usize {
        self.conns.get(&id).and_then(|c| c.session.as_ref()).map_or(0, Session::output_len)
    }

    /// The number of open connections, and the bytes that wait to be written to them.
    pub fn open_counts(&self) -> (usize, usize) {
        let open = self.conns.values().filter(|c| c.is_open());
        open.fold((0, 0), |(n, bytes), c| (n + 1, bytes + c.session.as_ref().map_or(0, Session::output_len)))
    }

    /// The controllers that we connect to, and whether they are connected.
    pub fn controllers(&self) -> impl Iterator<Item = (&str, bool)> {
        let active = self.conns.values().filter(|c| c.is_active());
        active.map(|c| (c.settings.target.as_str(), c.reconnect.is_connected()))
    }

    /// The name of its bridge.
    pub fn bridge(&self) -> &str {
        &self.bridge
    }

    /// Whether controllers are configured.
    pub fn has_controllers(&self) -> bool {
        !self.controller_targets().is_empty() || !self.refused.is_empty()
    }
}

impl ConnManager {
    /// The connection that snoopers see: of the controllers that we connect to, the one with the highest role.
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
