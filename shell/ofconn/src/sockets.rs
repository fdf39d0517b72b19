//! All sockets of one bridge: those that listen, and connections.
//!
//! A turn is `carry_out` for each session with orders, `run` (accept, connect, read, timers), `decode`, then `flush`; events
//! are taken in between. A reconnected connection has a new id; ids are never reused.
//!
//! **Threads**: the thread of the sockets; in dummy mode the main loop.

use crate::batch::Batch;
use crate::conn::{Conn, parse};
use crate::listener::{Passive, Purpose};
use crate::order::{ConnId, Event, Order};
use crate::target::{ConnKind, ControllerTarget, ManagerConfig};
use ofproto::Preparer;
use openflow::VersionSet;
use openflow::session::Role;
use runtime::coverage::Counter;
use runtime::{Module, RateLimit, WaitSet};
use std::collections::{BTreeMap, BTreeSet};
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

/// Requests of one connection that are decoded before the main loop gets them: it executes these while the next ones are decoded.
/// Fewer would wake it more often, which costs it a turn each time.
const PORTION: usize = 256;

/// All sockets of one bridge.
#[derive(Debug, Default)]
pub(crate) struct Sockets {
    bridge: String,
    versions: VersionSet,
    debug_actions: bool,
    queue_size: usize,
    passive: Vec<Passive>,
    /// Targets that cannot be used, with the reason that was logged.
    refused: BTreeMap<String, String>,
    pub(crate) conns: BTreeMap<ConnId, Conn>,
    /// Connections that the main loop knows.
    open: BTreeSet<ConnId>,
    /// News for the main loop.
    events: Vec<(ConnId, Event)>,
    next_id: u64,
    preparer: Preparer,
}

impl Sockets {
    /// No sockets yet; `bridge` names them.
    pub(crate) fn new(bridge: &str) -> Sockets {
        Sockets { bridge: bridge.to_owned(), ..Sockets::default() }
    }

    /// Applies a configuration. Unchanged connections stay. Returns error texts; a target that cannot be listened on
    /// is tried again at the next call.
    pub(crate) fn configure(&mut self, config: &ManagerConfig, now: Millis) -> Vec<String> {
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
        self.note_ends();
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
            let conn = Conn::active(
                &self.bridge,
                controller.clone(),
                target,
                (config.versions, self.debug_actions),
                now,
            );
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

    /// Targets that cannot be used, with the reason.
    pub(crate) fn refused(&self) -> impl Iterator<Item = (&str, &str)> {
        self.refused.iter().map(|(target, why)| (target.as_str(), why.as_str()))
    }

    fn insert(&mut self, conn: Conn) -> ConnId {
        self.next_id += 1;
        let id = ConnId(self.next_id);
        self.conns.insert(id, conn);
        id
    }

    /// Begins a turn: accepts, connects, reads, runs timers, negotiates versions.
    pub(crate) fn run(&mut self, now: Millis) {
        self.accept(now);
        let mut renew = Vec::new();
        for (id, conn) in &mut self.conns {
            let was_open = conn.is_open();
            conn.run(now);
            if was_open && !conn.is_open() && conn.is_active() {
                renew.push(*id);
            } else if let Some(opened) = conn.open(now) {
                self.open.insert(*id);
                self.events.push((*id, Event::Opened(Box::new(opened))));
            }
        }
        renew.into_iter().for_each(|id| self.renew(id));
        self.note_ends();
    }

    /// Decodes what arrived; `give` takes the events in portions.
    pub(crate) fn decode(&mut self, give: &mut dyn FnMut(Vec<(ConnId, Event)>)) {
        for id in self.open.clone() {
            // Until there is no request: less than a portion may have ended at a limit that the main loop has lifted since.
            while self.decode_of(id, PORTION) > 0 {
                give(self.take_events());
            }
        }
        give(self.take_events());
    }

    /// Decodes at most `count` next requests of a connection. Returns how many there were.
    pub(crate) fn decode_of(&mut self, id: ConnId, count: usize) -> usize {
        let batch = self.conns.get_mut(&id).and_then(|conn| conn.decode(count, &mut self.preparer));
        let n = batch.as_ref().map_or(0, Batch::len);
        self.events.extend(batch.map(|batch| (id, Event::Requests(batch))));
        n
    }

    /// Carries out orders for a connection; if it has ended, nothing happens.
    pub(crate) fn carry_out(&mut self, id: ConnId, orders: Vec<Order>, now: Millis) {
        if let Some(conn) = self.conns.get_mut(&id) {
            conn.carry_out(orders, now);
        }
    }

    /// News for the main loop.
    pub(crate) fn take_events(&mut self) -> Vec<(ConnId, Event)> {
        std::mem::take(&mut self.events)
    }

    /// Reports connections that are not open any more.
    fn note_ends(&mut self) {
        let conns = &self.conns;
        let is_open = |id: &ConnId| conns.get(id).is_some_and(Conn::is_open);
        let ended: Vec<ConnId> = self.open.iter().copied().filter(|id| !is_open(id)).collect();
        for id in ended {
            self.open.remove(&id);
            self.events.push((id, Event::Closed));
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
                let wire = (passive.versions, self.debug_actions);
                new.push(Conn::accepted(&self.bridge, kind, stream, settings, wire, now));
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

    /// Ends a turn: writes, removes closed connections. Returns whether the main loop waits for something that was written.
    pub(crate) fn flush(&mut self, now: Millis) -> bool {
        let (mut renew, mut is_awaited) = (Vec::new(), false);
        for (id, conn) in &mut self.conns {
            let was_connected = conn.is_connected();
            if conn.make_parts(now) {
                self.events.push((*id, Event::PartsSent));
            }
            is_awaited |= conn.flush(now);
            conn.log();
            if was_connected && !conn.is_connected() && conn.is_active() {
                renew.push(*id);
            }
        }
        renew.into_iter().for_each(|id| self.renew(id));
        self.conns.retain(|_, c| !c.is_over());
        self.note_ends();
        is_awaited
    }

    /// Adds what ends the next sleep.
    pub(crate) fn wait<'a>(&'a self, set: &mut WaitSet<'a>, now: Millis) {
        self.passive.iter().for_each(|p| p.wait(set));
        self.conns.values().for_each(|c| c.wait(set, now));
    }

    /// Ends all connections; active ones are reconnected.
    pub(crate) fn reconnect_all(&mut self) {
        self.conns.values_mut().for_each(|c| c.reconnect.force_reconnect());
    }

    /// The connection that snoopers see: of the controllers that we connect to, the one with the highest role.
    fn best_to_snoop(&mut self) -> Option<&mut Conn> {
        let rank = |c: &Conn| match c.role() {
            Some(Role::Primary) => 3,
            Some(Role::Equal) => 2,
            Some(Role::Secondary) => 1,
            Some(Role::NoChange) | None => 0,
        };
        self.conns.values_mut().filter(|c| c.is_active()).max_by_key(|c| rank(c))
    }
}
