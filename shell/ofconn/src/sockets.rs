//! All sockets of one bridge: passive sockets and connections.
//!
//! A turn is `carry_out` for each session with commands, `run` (accept, connect, read, timers), `decode`, then `flush`; the caller takes
//! events in between. A reconnected connection has a new id; ids are never reused.
//!
//! **Threads**: the thread that owns the sockets (`thread/ownership.rs`); in dummy mode the main loop.

use crate::batch::Batch;
use crate::command::{Command, ConnId, Event};
use crate::conn::{Conn, READ_SIZE, parse};
use crate::conn_settings::{ConnKind, ConnSettings, ConnectionsConfig, is_passive};
use crate::listener::{PassiveSocket, Purpose};
use ofproto::Preparer;
use openflow::VersionSet;
use openflow::session::Role;
use runtime::coverage::Counter;
use runtime::poll_loop::Ready;
use runtime::{Module, RateLimit, WaitSet};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use transport::{AcceptPause, ListenerGroup};
use units::Millis;

static LOG: Module = Module::new("connmgr");
static LIMIT: RateLimit = RateLimit::new(60, 600);
/// Number of connections that were closed because the bridge had reached its maximum.
static REFUSED: Counter = Counter::new("ofconn_refused");

/// Limit of the connections that tools have opened to one bridge, and a separate limit of those that controllers have opened. Each
/// connection uses up to a few megabytes for requests and replies, and a file descriptor of the daemon.
const ACCEPTED_MAX: usize = 256;
/// Limit of connections to the snoop socket of one bridge.
const SNOOPERS_MAX: usize = 32;

/// The work of accepting a connection, compared with receiving a byte.
const ACCEPT_WORK: usize = 2048;

/// Requests of one connection in a batch for the main loop, which executes a batch while the thread decodes the next one. Smaller batches
/// would wake the main loop more often, and each wake-up costs a turn.
const BATCH_SIZE: usize = 256;

/// All sockets of one bridge.
#[derive(Debug, Default)]
pub(crate) struct Sockets {
    bridge: String,
    versions: VersionSet,
    debug_actions: bool,
    queue_size: usize,
    passive: Vec<PassiveSocket>,
    /// Watches the passive sockets. `None`: each one is watched by itself.
    group: Option<Arc<ListenerGroup>>,
    accept_pause: AcceptPause,
    /// Targets that cannot be used, with the error that was logged.
    unusable: BTreeMap<String, String>,
    pub(crate) conns: BTreeMap<ConnId, Conn>,
    /// Connections that were reported to the main loop as open.
    open: BTreeSet<ConnId>,
    /// Events that the main loop has not received.
    events: Vec<(ConnId, Event)>,
    next_id: u64,
    preparer: Preparer,
    /// Used while reading; it is not cleared.
    buffer: Vec<u8>,
}

impl Sockets {
    /// Creates the object without sockets; `bridge` names the sockets. `group` watches the passive sockets.
    pub(crate) fn new(bridge: &str, group: Option<Arc<ListenerGroup>>) -> Sockets {
        Sockets { bridge: bridge.to_owned(), group, ..Sockets::default() }
    }

    /// Applies a configuration. Unchanged connections stay open. Returns error texts; the next call tries again to listen on a target
    /// where that failed.
    pub(crate) fn configure(&mut self, config: &ConnectionsConfig, now: Millis) -> Vec<String> {
        if self.versions != config.versions {
            // The negotiated version of a connection may no longer be allowed, so every connection negotiates again.
            self.reconnect_all();
            self.passive.clear();
            self.versions = config.versions;
        }
        self.debug_actions = config.debug_actions;
        self.queue_size = config.queue_size;
        for conn in self.conns.values_mut().filter(|c| c.kind == ConnKind::Tool) {
            conn.settings.queue_size = config.queue_size;
        }
        let mut errors = Vec::new();
        self.remove_unwanted(&config.controllers);
        let socket = |suffix: &str| format!("punix:{}.{suffix}", self.bridge);
        let (management, snoop) = (socket("mgmt"), socket("snoop"));
        let versions = config.versions;
        self.listen(Purpose::Management, &management, versions, config, &mut errors);
        self.listen(Purpose::Snoop, &snoop, VersionSet::ALL, config, &mut errors);
        for controller in &config.controllers {
            self.configure_controller(controller, config, now, &mut errors);
        }
        self.report_closed();
        errors
    }

    fn remove_unwanted(&mut self, wanted: &[ConnSettings]) {
        let is_wanted = |target: &str| wanted.iter().any(|c| c.target == target);
        let gone: Vec<String> = self.controller_targets().into_iter().filter(|t| !is_wanted(t)).collect();
        for target in gone {
            self.log_controller("removed", &target);
            self.passive.retain(|p| p.target != target);
            self.conns.retain(|_, c| c.settings.target != target);
        }
        self.unusable.retain(|t, _| is_wanted(t));
    }

    /// Open vSwitch calls a controller to which the switch connects "primary", and a passive target "service".
    fn log_controller(&self, what: &str, target: &str) {
        let kind = if is_passive(target) { "service" } else { "primary" };
        runtime::info!(LOG, "{}: {what} {kind} controller \"{target}\"", self.bridge);
    }

    /// Targets of all controllers that have a passive socket or an active connection, connected or not.
    fn controller_targets(&self) -> Vec<String> {
        let passive = self.passive.iter().filter(|p| matches!(p.purpose, Purpose::Controller(_)));
        let active = self.conns.values().filter(|c| c.is_active());
        passive.map(|p| p.target.clone()).chain(active.map(|c| c.settings.target.clone())).collect()
    }

    /// Creates or updates the connection or the passive socket of a controller.
    fn configure_controller(
        &mut self,
        controller: &ConnSettings,
        config: &ConnectionsConfig,
        now: Millis,
        errors: &mut Vec<String>,
    ) {
        let name = controller.target.as_str();
        for conn in self.conns.values_mut().filter(|c| c.settings.target == name) {
            conn.configure(controller.clone());
        }
        let target = match parse(name, &config.rundir) {
            Ok(target) => target,
            Err(e) => return self.record_unusable(name, e, errors),
        };
        if target.is_passive() {
            let purpose = Purpose::Controller(controller.clone());
            if self.listen(purpose, name, config.versions, config, errors) {
                self.log_controller("added", name);
            }
        } else if !self.conns.values().any(|c| c.is_active() && c.settings.target == name) {
            self.log_controller("added", name);
            let conn = Conn::active(
                &self.bridge,
                controller.clone(),
                target,
                (config.versions, self.debug_actions),
                now,
            );
            self.insert(conn);
        }
        self.unusable.remove(name);
    }

    /// Opens a passive socket unless one exists for `target`. Returns whether a socket was opened.
    fn listen(
        &mut self,
        purpose: Purpose,
        target: &str,
        versions: VersionSet,
        config: &ConnectionsConfig,
        errors: &mut Vec<String>,
    ) -> bool {
        if let Some(existing) = self.passive.iter_mut().find(|p| p.target == target) {
            existing.purpose = purpose;
            return false;
        }
        match PassiveSocket::bind(purpose, target, versions, &config.rundir, self.group.as_deref()) {
            Ok(passive) => {
                self.passive.push(passive);
                true
            }
            Err(e) => {
                self.record_unusable(target, e, errors);
                false
            }
        }
    }

    /// Records why a target cannot be used, and logs a new reason once.
    fn record_unusable(&mut self, target: &str, why: String, errors: &mut Vec<String>) {
        if self.unusable.get(target) != Some(&why) {
            runtime::err!(LOG, "{}: {why}", self.bridge);
            self.unusable.insert(target.to_owned(), why.clone());
        }
        errors.push(why);
    }

    /// Targets that cannot be used, with the reason.
    pub(crate) fn unusable(&self) -> impl Iterator<Item = (&str, &str)> {
        self.unusable.iter().map(|(target, why)| (target.as_str(), why.as_str()))
    }

    fn insert(&mut self, conn: Conn) -> ConnId {
        self.next_id += 1;
        let id = ConnId(self.next_id);
        self.conns.insert(id, conn);
        id
    }

    /// Begins a turn: accepts, connects, reads, runs timers, negotiates versions. Adds to `work` the number of received bytes, and
    /// [`ACCEPT_WORK`] for each accepted connection. Neither accepts nor reads while `work` is `work_max` or more.
    pub(crate) fn run(&mut self, now: Millis, work: &mut usize, work_max: usize) {
        if *work < work_max {
            *work += ACCEPT_WORK * self.accept(now);
        }
        let mut renew = Vec::new();
        self.buffer.resize(if self.conns.is_empty() { 0 } else { READ_SIZE }, 0);
        for (id, conn) in &mut self.conns {
            let was_open = conn.is_open();
            conn.run(&mut self.buffer, (work, work_max), now);
            if was_open && !conn.is_open() && conn.is_active() {
                renew.push(*id);
            } else if let Some(opened) = conn.open(now) {
                self.open.insert(*id);
                self.events.push((*id, Event::Opened(Box::new(opened))));
            }
        }
        renew.into_iter().for_each(|id| self.assign_new_id(id));
        self.report_closed();
    }

    /// Decodes the requests that have arrived, and passes events to `give` after each batch.
    pub(crate) fn decode(&mut self, give: &mut dyn FnMut(Vec<(ConnId, Event)>)) {
        for id in self.open.clone() {
            // Repeat until no request is decoded, also after a small batch: meanwhile the main loop may have lifted the limit that ended
            // the batch.
            while self.decode_conn(id, BATCH_SIZE) > 0 {
                give(self.take_events());
            }
        }
        give(self.take_events());
    }

    /// Decodes at most `count` further requests of a connection. Returns the number of decoded requests.
    pub(crate) fn decode_conn(&mut self, id: ConnId, count: usize) -> usize {
        let batch = self.conns.get_mut(&id).and_then(|conn| conn.decode(count, &mut self.preparer));
        let n = batch.as_ref().map_or(0, Batch::len);
        self.events.extend(batch.map(|batch| (id, Event::Requests(batch))));
        n
    }

    /// Carries out commands for a connection; if the connection has ended, they are discarded.
    pub(crate) fn carry_out(&mut self, id: ConnId, commands: Vec<Command>, now: Millis) {
        if let Some(conn) = self.conns.get_mut(&id) {
            conn.carry_out(commands, now);
        }
    }

    /// The events since the last call.
    pub(crate) fn take_events(&mut self) -> Vec<(ConnId, Event)> {
        std::mem::take(&mut self.events)
    }

    /// Adds an event for each connection that is no longer open.
    fn report_closed(&mut self) {
        let conns = &self.conns;
        let is_open = |id: &ConnId| conns.get(id).is_some_and(Conn::is_open);
        let ended: Vec<ConnId> = self.open.iter().copied().filter(|id| !is_open(id)).collect();
        for id in ended {
            self.open.remove(&id);
            self.events.push((id, Event::Closed));
        }
    }

    /// Assigns a new id to a lost connection that will be reconnected.
    fn assign_new_id(&mut self, id: ConnId) {
        if let Some(conn) = self.conns.remove(&id) {
            self.insert(conn);
        }
    }

    /// Accepts connections of tools, controllers and snoopers, up to their limits. Returns their number, including those that are closed at once.
    fn accept(&mut self, now: Millis) -> usize {
        if self.accept_pause.lasts(now) {
            return 0;
        }
        let mut new = Vec::new();
        let mut snoopers = Vec::new();
        for passive in &self.passive {
            let (streams, has_failed) = passive.accept();
            if has_failed {
                self.accept_pause.begin(now);
            }
            for stream in streams {
                let (kind, settings) = match &passive.purpose {
                    Purpose::Management => (ConnKind::Tool, ConnSettings::of_tool(self.queue_size)),
                    Purpose::Controller(c) => (ConnKind::Controller, c.clone()),
                    Purpose::Snoop => {
                        snoopers.push(stream);
                        continue;
                    }
                };
                let options = (passive.versions, self.debug_actions);
                new.push(Conn::accepted(&self.bridge, kind, stream, settings, options, now));
            }
        }
        let accepted = new.len() + snoopers.len();
        for conn in new {
            let of_kind = self.conns.values().filter(|c| c.kind == conn.kind && !c.is_active()).count();
            if of_kind >= ACCEPTED_MAX {
                // Close the new connection and not an older one, which may be in use.
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
        accepted
    }

    /// Ends a turn: writes output, removes closed connections. Returns whether the main loop waits for output to be written.
    pub(crate) fn flush(&mut self, now: Millis) -> bool {
        let (mut renew, mut must_wake_main) = (Vec::new(), false);
        for (id, conn) in &mut self.conns {
            let was_connected = conn.is_connected();
            let ended = conn.make_parts(now);
            self.events.extend((0..ended).map(|_| (*id, Event::PartsSent)));
            must_wake_main |= conn.flush(now);
            conn.log();
            if was_connected && !conn.is_connected() && conn.is_active() {
                renew.push(*id);
            }
        }
        renew.into_iter().for_each(|id| self.assign_new_id(id));
        self.conns.retain(|_, c| !c.is_over());
        self.report_closed();
        must_wake_main
    }

    /// Whether serving a connection may take long.
    pub(crate) fn has_long_work(&self) -> bool {
        self.conns.values().any(Conn::has_long_work)
    }

    /// Adds the file descriptors and deadlines that end the next sleep; without the passive sockets that a group watches.
    pub(crate) fn wait<'a>(&'a self, set: &mut WaitSet<'a>, now: Millis) {
        match (self.accept_pause.end(), &self.group) {
            (Some(at), _) => set.deadline(at),
            (None, None) => self.passive.iter().for_each(|p| p.wait(set)),
            (None, Some(_)) => {}
        }
        self.conns.values().for_each(|c| c.wait(set, now));
    }

    /// Whether the passive sockets must not be watched now.
    pub(crate) fn pauses_accepting(&self) -> bool {
        self.accept_pause.end().is_some()
    }

    /// Tells the result of a sleep after [`wait`](Self::wait), and which listeners of the group have waiting clients.
    pub(crate) fn record_sleep(&mut self, ready: &Ready, listeners: &[u64]) {
        self.passive.iter_mut().for_each(|p| p.record_group_sleep(listeners));
        self.conns.values_mut().for_each(|conn| conn.record_sleep(ready));
    }

    /// Closes all connections and reopens those that the switch opens.
    pub(crate) fn reconnect_all(&mut self) {
        self.conns.values_mut().for_each(|c| c.reconnect.force_reconnect());
    }

    /// The connection whose messages a new snooper gets: of the connections that the switch opens, the one with the highest role.
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
