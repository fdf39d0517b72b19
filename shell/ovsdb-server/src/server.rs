//! The server. In each turn it configures remotes, accepts clients, reads, executes requests, and writes.
//!
//! One thread owns the sockets. Between turns it sleeps until one of the events that [`Server::wait`] registered, and
//! passes the events to the next [`Server::run`]. The databases are in the [`Core`]. The thread itself executes requests
//! that take at most a few milliseconds. For longer requests it moves the core to a job and continues without it: it
//! reads, writes and answers probes, while other requests wait until the job returns the core.

use crate::batch::ServedDatabase;
use crate::conn::{Conn, READ_LEN};
use crate::core::{Core, Work};
use crate::jobs::{JobResult, Jobs};
use crate::limits::Limits;
use crate::remotes::{
    NewConnection, RemoteNames, RemoteSocket, Remotes, accepted_connection, log_accept_error,
};
use crate::session::{Session, SessionId};
use ovsdb::ClientMessage;
use runtime::poll_loop::{Interest, Ready, Token, WaitSet};
use runtime::{Module, RateLimit};
use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use transport::{AcceptPause, DisconnectReason};
use units::Millis;

static LOG: Module = Module::new("ovsdb_jsonrpc_server");
static LIMIT: RateLimit = RateLimit::new(1, 5);

/// Maximum number of clients; further clients wait in the listener's backlog.
const MAX_SESSIONS: usize = 4096;

/// Maximum of incomplete, pending and blocked requests of all clients, in bytes: the length of incomplete and pending
/// requests, and the estimated memory of blocked transactions.
const MAX_INPUT_LEN: usize = 512 << 20;

/// Interval for polling a running compaction, in ms.
const COMPACTION_POLL_MS: u64 = 10;

/// Interval for polling running jobs, in ms.
const JOB_POLL_MS: u64 = 1;

/// Maximum number of requests of one session in one job.
const REQUESTS_PER_JOB: usize = 16;

/// The thread executes requests for at most about this long before it serves the sockets again.
const EXECUTION_TIME_MAX: Duration = Duration::from_millis(20);

/// A database server.
pub struct Server {
    pub(crate) core: Box<Core>,
    pub(crate) conns: BTreeMap<SessionId, Conn>,
    jobs: Jobs,
    /// Sessions that ended while a job had the core.
    ended_sessions: Vec<SessionId>,
    /// The session whose request was executed last.
    last_served: SessionId,
    /// The last turn started a job for a request and therefore retried no blocked transaction.
    retries_skipped: bool,
    pub(crate) remotes: Remotes,
    pub(crate) tls: crate::tls_names::TlsNames,
    pub(crate) status_due: Option<Millis>,
    /// The configuration errors that were logged last.
    pub(crate) errors: Vec<String>,
    /// The value of `settings_generation` when the settings were resolved; `None`: resolve them in the next turn.
    resolved_at: Option<u64>,
    rundir: PathBuf,
    next_session: SessionId,
    accept_pause: AcceptPause,
    /// The read buffer.
    buffer: Vec<u8>,
}

/// The sockets that are readable in a turn.
pub struct Readable {
    sessions: Vec<SessionId>,
    /// Whether clients may wait at a listening socket.
    clients_waiting: bool,
}

impl Default for Readable {
    /// Before the first sleep it is unknown whether clients wait: call `accept`.
    fn default() -> Readable {
        Readable { sessions: Vec::new(), clients_waiting: true }
    }
}

/// The events that were registered for a sleep.
#[derive(Default)]
pub struct Waits {
    sessions: Vec<(SessionId, Token)>,
    listeners: Vec<Token>,
}

impl Waits {
    /// The sockets that are readable after the sleep.
    pub fn readable(self, ready: &Ready) -> Readable {
        let sessions = self.sessions.into_iter().filter(|(_, token)| ready.contains(*token));
        let clients_waiting = self.listeners.into_iter().any(|token| ready.contains(token));
        Readable { sessions: sessions.map(|(id, _)| id).collect(), clients_waiting }
    }
}

impl Server {
    /// A server with only its own database `_Server`. Relative names of Unix sockets are relative to `rundir`.
    pub fn new(rundir: &Path, limits: Limits) -> Server {
        let mut core = Box::new(Core::new(limits));
        core.add_server_database();
        Server {
            core,
            conns: BTreeMap::new(),
            jobs: Jobs::new(),
            ended_sessions: Vec::new(),
            last_served: 0,
            retries_skipped: false,
            remotes: Remotes::default(),
            tls: crate::tls_names::TlsNames::default(),
            status_due: None,
            errors: Vec::new(),
            resolved_at: None,
            rundir: rundir.to_owned(),
            next_session: 0,
            accept_pause: AcceptPause::default(),
            buffer: vec![0; READ_LEN],
        }
    }

    /// The configured remotes, for changes.
    pub fn remotes_mut(&mut self) -> &mut RemoteNames {
        self.resolved_at = None;
        &mut self.remotes.configured
    }

    /// The configured remotes.
    pub fn remotes(&self) -> &RemoteNames {
        &self.remotes.configured
    }

    /// Returns whether a job has the core. Functions that need the core wait for the job.
    pub fn is_busy(&self) -> bool {
        self.jobs.has_core()
    }

    /// The core. If a job has it, waits for the job.
    pub(crate) fn core(&mut self) -> &mut Core {
        while self.jobs.has_core() {
            let done = self.jobs.next_result(true);
            self.take_job_result(done);
        }
        &mut self.core
    }

    /// Runs one turn: processes results of jobs, events and deadlines.
    pub fn run(&mut self, readable: &Readable, now: Millis) {
        while let Some(done) = self.jobs.next_result(false) {
            self.take_job_result(Some(done));
        }
        if !self.is_busy() {
            self.configure(now);
        }
        if readable.clients_waiting || self.accept_pause.end().is_some() {
            self.accept(now);
        }
        for arrival in self.remotes.connect_targets(now) {
            self.add_connection(arrival);
        }
        self.read(readable, now);
        if !self.is_busy() {
            self.write_status(now);
            self.execute_requests();
        }
        self.conns.values_mut().for_each(|conn| conn.probe(now));
        if self.is_busy() {
            self.conns.values().for_each(Conn::check_hangup);
            self.conns.values_mut().for_each(Conn::answer_probes);
        }
        self.conns.values_mut().for_each(Conn::flush);
        self.limit_input(MAX_INPUT_LEN);
        self.drop_closed(now);
    }

    /// Opens and closes sockets according to the settings, if these may have changed.
    fn configure(&mut self, now: Millis) {
        let generation = self.settings_generation();
        let retry = self.remotes.deadline(now).is_some_and(|at| at <= now);
        if self.resolved_at == Some(generation) && !retry {
            return;
        }
        self.resolved_at = Some(generation);
        let (resolved, errors) = self.resolve_settings();
        for removed in self.remotes.reconcile(&resolved, &self.rundir, now) {
            let of_it = self.conns.values_mut().filter(|s| s.remote == removed);
            of_it.for_each(|conn| conn.end(DisconnectReason::Dropped));
        }
        for (id, conn) in &mut self.conns {
            if let Some(remote) = self.remotes.active.get(&conn.remote).filter(|r| r.options != conn.options)
            {
                conn.options = remote.options.clone();
                conn.link.set_probe_interval(conn.options.probe_interval_ms);
                conn.link.set_max_backoff(conn.options.max_backoff_ms);
                if let Some(session) = self.core.sessions.get_mut(id) {
                    session.options = remote.options.clone();
                }
            }
        }
        self.log_errors(errors);
    }

    /// A number that changes when the settings of remotes and TLS in columns may have changed.
    fn settings_generation(&self) -> u64 {
        if self.reads_settings() { self.core.generation() } else { 0 }
    }

    /// Registers the events and deadlines that end the caller's next sleep.
    pub fn wait<'a>(&'a self, set: &mut WaitSet<'a>, now: Millis) -> Waits {
        let full = self.conns.len() >= MAX_SESSIONS || self.accept_pause.end().is_some();
        let has_capacity = |name: &str| !full && self.clients_of(name) < self.core.limits.sessions;
        let mut waits = Waits { listeners: self.remotes.wait(set, has_capacity), ..Waits::default() };
        for (id, conn) in &self.conns {
            let held = self.core.sessions.get(id).is_some_and(Session::can_send_held);
            if conn.may_have_data && conn.accepts_input() || (held || conn.has_requests()) && !self.is_busy()
            {
                set.wake_now();
            }
            let interest = match (conn.accepts_input(), conn.has_output()) {
                (true, true) => Interest::Both,
                (false, true) => Interest::Write,
                (true, false) => Interest::Read,
                // The client is not read until its pending requests have been executed.
                (false, false) => {
                    conn.link.deadline(now).into_iter().for_each(|at| set.deadline(at));
                    continue;
                }
            };
            let token = set.fd(&conn.stream, interest);
            if conn.accepts_input() {
                waits.sessions.push((*id, token));
            }
            conn.link.deadline(now).into_iter().for_each(|at| set.deadline(at));
        }
        if self.core.may_retry() {
            set.wake_now();
        }
        if let Some(at) = self.core.earliest_deadline() {
            // The deadline is rounded down to milliseconds and must have passed when the loop wakes: add one millisecond.
            let left = at.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
            set.deadline(Millis(now.0 + u64::try_from(left.as_millis()).unwrap_or(u64::MAX / 2)));
        }
        if self.core.databases.values().any(ServedDatabase::is_compacting) {
            set.deadline(Millis(now.0 + COMPACTION_POLL_MS));
        }
        if self.jobs.any_running() {
            set.deadline(Millis(now.0 + JOB_POLL_MS));
        } else if self.resolved_at != Some(self.settings_generation()) {
            set.wake_now();
        }
        // While a job has the core, deadlines of work that needs the core are not registered; running jobs are polled.
        let of_core = [self.remotes.deadline(now), self.status_due].map(|at| at.filter(|_| !self.is_busy()));
        let others = [self.accept_pause.end()].into_iter().chain(of_core);
        others.flatten().for_each(|at| set.deadline(at));
        waits
    }

    fn clients_of(&self, remote: &str) -> usize {
        self.conns.values().filter(|conn| conn.remote == remote).count()
    }

    fn accept(&mut self, now: Millis) {
        if self.accept_pause.lasts(now) {
            return;
        }
        let mut fresh = Vec::new();
        for (name, remote) in &self.remotes.active {
            let RemoteSocket::Listening(listener) = &remote.socket else { continue };
            // A remote that has reached its limit of clients does not affect other remotes.
            let mut clients_left = self.core.limits.sessions.saturating_sub(self.clients_of(name));
            while clients_left > 0 && self.conns.len() + fresh.len() < MAX_SESSIONS {
                match listener.accept() {
                    Ok(Some(stream)) => fresh.push(accepted_connection(stream, name, &remote.options, now)),
                    Ok(None) => break,
                    Err(error) => {
                        log_accept_error(name, &error);
                        self.accept_pause.begin(now);
                        break;
                    }
                }
                clients_left -= 1;
            }
        }
        fresh.into_iter().for_each(|arrival| self.add_connection(arrival));
    }

    fn add_connection(&mut self, arrival: NewConnection) {
        self.next_session += 1;
        let id = self.next_session;
        if let Some(RemoteSocket::Outbound { session, .. }) =
            self.remotes.active.get_mut(&arrival.remote).map(|r| &mut r.socket)
        {
            *session = Some(id);
        }
        self.conns.insert(id, Conn::new(arrival, &self.core.limits));
    }

    /// Reads from the readable clients, and starts jobs for long messages.
    fn read(&mut self, readable: &Readable, now: Millis) {
        let with_data = self.conns.iter().filter(|(_, c)| c.may_have_data).map(|(id, _)| *id);
        let mut readable: Vec<SessionId> = readable.sessions.iter().copied().chain(with_data).collect();
        readable.sort_unstable();
        readable.dedup();
        for id in readable {
            if let Some(conn) = self.conns.get_mut(&id).filter(|c| !c.closed && c.accepts_input()) {
                conn.receive(now, &mut self.buffer);
            }
        }
        for (id, conn) in &mut self.conns {
            if !self.jobs.can_parse() {
                break;
            }
            if let Some(text) = conn.take_long_text() {
                self.jobs.parse(*id, text);
            }
        }
    }

    /// While the requests of all clients exceed `max` bytes, disconnects clients. If blocked transactions take more than
    /// other requests, this is the client whose blocked transactions take the most: a `wait` of a few bytes may be blocked
    /// for long. Otherwise it is the client whose message has been incomplete for longest.
    fn limit_input(&mut self, max: usize) {
        loop {
            let open = self.conns.values().filter(|c| !c.closed);
            let (received, blocked) = open.fold((0, 0), |(received, blocked), c| {
                (received + c.input_len(), blocked + c.blocked_memory)
            });
            if received + blocked <= max {
                return;
            }
            let open = self.conns.values_mut().filter(|c| !c.closed);
            let (found, reason) = if blocked > received {
                (open.max_by_key(|c| c.blocked_memory), "the blocked transactions are the largest")
            } else {
                let incomplete = open.filter(|c| c.incomplete_since.is_some());
                (incomplete.min_by_key(|c| c.incomplete_since), "the message has been incomplete for longest")
            };
            let Some(conn) = found else { return };
            let name = conn.stream.name();
            runtime::warn_rl!(
                LOG,
                LIMIT,
                "{name}: disconnecting: memory limit for requests is reached, and {reason}"
            );
            conn.end(DisconnectReason::Dropped);
        }
    }

    /// Executes pending requests, one of each session in turn, until there is none, the time limit has passed or a job has
    /// the core.
    fn execute_requests(&mut self) {
        let began = Instant::now();
        self.update_sessions();
        if self.retries_skipped {
            // Otherwise blocked transactions would never be retried while each turn starts a job.
            self.retry_blocked();
            if self.is_busy() {
                return;
            }
        }
        let ready = self.conns.iter().filter(|(_, c)| c.has_requests() && !c.closed).map(|(id, _)| *id);
        let (before, after): (Vec<_>, Vec<_>) = ready.partition(|id| *id <= self.last_served);
        let mut ready = VecDeque::from([after, before].concat());
        while let Some(id) = ready.pop_front() {
            let Some(conn) = self.conns.get_mut(&id) else { continue };
            let Some(next) = conn.next_request() else { continue };
            self.last_served = id;
            if self.core.needs_job(id, &next) {
                ready.push_front(id);
                let work = self.collect_work((id, next.message), ready);
                return self.finish_turn(work, true);
            }
            if conn.has_requests() {
                ready.push_back(id);
            }
            self.core.execute_work(Work { requests: vec![(id, next.message)], ..Work::default() });
            if began.elapsed() > EXECUTION_TIME_MAX {
                break;
            }
        }
        self.finish_turn(Work::default(), false);
    }

    /// The work for one job: the request that needs a job, and up to 16 requests of each session, so that short requests
    /// to a large database share the cost of a job.
    fn collect_work(&mut self, first: (SessionId, ClientMessage), ready: VecDeque<SessionId>) -> Work {
        let mut work = Work { requests: vec![first], ..Work::default() };
        for id in ready {
            let Some(conn) = self.conns.get_mut(&id) else { continue };
            // A probe is answered before the job starts, even if it arrived in the same turn as the request.
            conn.answer_probes();
            let some = std::iter::from_fn(|| conn.next_request()).take(REQUESTS_PER_JOB);
            work.requests.extend(some.map(|waiting| (id, waiting.message)));
        }
        work
    }

    /// Does the turn's remaining work on the core: in a job if it may take long, otherwise at once.
    fn finish_turn(&mut self, mut work: Work, mut needs_job: bool) {
        for (id, session) in self.core.sessions.iter().filter(|(_, s)| s.can_send_held()) {
            needs_job |= Core::needs_job_to_send_changes(session);
            work.send_held.push(*id);
        }
        needs_job |= self.core.databases.values().any(ServedDatabase::is_file_rewritten);
        if needs_job {
            self.retries_skipped = true;
            return self.start_job(work);
        }
        self.core.execute_work(work);
        self.core.finish_work();
        self.take_output();
        self.retry_blocked();
    }

    fn start_job(&mut self, work: Work) {
        let limits = self.core.limits;
        let core = std::mem::replace(&mut self.core, Box::new(Core::new(limits)));
        self.jobs.execute(core, work);
    }

    /// Executes one round of retries of blocked transactions, in a job if the first takes long. Replies to all other
    /// requests must be sent before.
    fn retry_blocked(&mut self) {
        self.retries_skipped = false;
        let retries = self.core.next_retries();
        let Some(first) = retries.first() else { return };
        if self.core.needs_job_to_retry(*first) {
            return self.start_job(Work::of_retries(retries));
        }
        self.core.retry(retries, false);
        self.core.finish_work();
        self.take_output();
    }

    fn take_job_result(&mut self, done: Option<JobResult>) {
        match done {
            Some(JobResult::Parsed(id, parsed)) => {
                if let Some(conn) = self.conns.get_mut(&id) {
                    conn.queue_parsed_long(parsed);
                }
            }
            Some(JobResult::Core(core)) => {
                self.core = core;
                self.take_output();
            }
            None => {}
        }
    }

    /// Adds sessions for new connections to the core, removes sessions of ended connections, and updates the backlog of
    /// all others.
    fn update_sessions(&mut self) {
        for id in std::mem::take(&mut self.ended_sessions) {
            self.core.end_session(id);
        }
        for (id, conn) in &self.conns {
            let fresh = || Session::new(conn.stream.name(), conn.options.clone(), Arc::clone(&conn.hung_up));
            let session = self.core.sessions.entry(*id).or_insert_with(fresh);
            if session.peer_common_name.is_none() {
                session.peer_common_name = conn.stream.peer_common_name().map(str::to_owned);
            }
            session.backlog = conn.backlog();
        }
    }

    /// Moves the output of sessions to their connections, and ends the connections whose session has ended.
    pub(crate) fn take_output(&mut self) {
        for (id, conn) in &mut self.conns {
            let Some(session) = self.core.sessions.get_mut(id) else { continue };
            session.output.drain(..).for_each(|text| conn.send_text(text));
            conn.flush();
            session.backlog = conn.backlog();
            conn.blocked_memory = session.blocked_memory();
            if let Some(loss) = session.loss.take() {
                conn.end(loss);
            }
            conn.end_if_done();
        }
    }

    fn drop_closed(&mut self, now: Millis) {
        let closed: Vec<SessionId> = self.conns.iter().filter(|(_, s)| s.closed).map(|(id, _)| *id).collect();
        for id in closed {
            if let Some(mut conn) = self.conns.remove(&id) {
                let name = std::mem::take(&mut conn.remote);
                self.remotes.connection_ended(&name, id, conn.into_link(now));
            }
            self.ended_sessions.push(id);
        }
        if !self.is_busy() {
            self.update_sessions();
            self.take_output();
        }
    }

    /// Ends all connections. The server then connects again to the addresses to which it had connected.
    pub fn reconnect(&mut self) {
        self.conns.values_mut().for_each(|conn| conn.end(DisconnectReason::Dropped));
    }
}

impl Drop for Server {
    /// Waits for the running job, so that the files are closed when the server is dropped.
    fn drop(&mut self) {
        _ = self.core();
    }
}

#[cfg(test)]
mod tests;
