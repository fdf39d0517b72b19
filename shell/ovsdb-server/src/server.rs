//! The server and its turn: configure, accept, read, execute, write.
//!
//! One thread owns the sockets. Between turns its owner sleeps until an event that [`Server::wait`]
//! registered, and passes the events to the next [`Server::run`]. The databases are in the [`Core`]. The
//! thread itself executes requests that take at most a few milliseconds. For longer requests it gives the
//! core to a job and continues without it: it reads, writes and answers probes, while other requests wait for
//! the core.

use crate::batch::Served;
use crate::conn::{Conn, READ_LEN};
use crate::core::{Core, Work};
use crate::jobs::{Done, Jobs};
use crate::limits::Limits;
use crate::remotes::{Arrival, End, RemoteNames, Remotes, arrived, log_accept_error};
use crate::session::{Session, SessionId};
use ovsdb::Long;
use runtime::poll_loop::{Interest, Ready, Token, WaitSet};
use runtime::{Module, RateLimit};
use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use transport::Loss;
use units::Millis;

static LOG: Module = Module::new("ovsdb_jsonrpc_server");
static LIMIT: RateLimit = RateLimit::new(1, 5);

/// Maximum number of clients; more wait in the listener's backlog.
const MAX_SESSIONS: usize = 4096;

/// Maximum bytes of incomplete and waiting requests of all clients.
const MAX_INPUT_LEN: usize = 512 << 20;

/// Interval for polling a running compaction, in ms.
const COMPACTION_POLL_MS: u64 = 10;

/// Interval for polling running jobs, in ms.
const JOB_POLL_MS: u64 = 1;

/// Maximum number of requests of one session in one job.
const REQUESTS_PER_JOB: usize = 16;

/// Longest time to execute requests before sockets are served again.
const SHARE: Duration = Duration::from_millis(20);

/// Time without `accept` after one failed, in ms.
const ACCEPT_PAUSE_MS: u64 = 200;

/// A database server.
pub struct Server {
    pub(crate) core: Box<Core>,
    pub(crate) conns: BTreeMap<SessionId, Conn>,
    jobs: Jobs,
    /// Sessions that ended while a job had the core.
    gone: Vec<SessionId>,
    /// The session that was served last.
    served: SessionId,
    pub(crate) remotes: Remotes,
    pub(crate) tls: crate::tls_names::TlsNames,
    pub(crate) status_due: Option<Millis>,
    /// The configuration errors that were logged last.
    pub(crate) complaints: Vec<String>,
    /// The generation for which the remotes were resolved; `None`: resolve them in the next turn.
    resolved_at: Option<u64>,
    rundir: PathBuf,
    next_session: SessionId,
    /// The time of the next `accept`, after the system ran out of file descriptors.
    accept_again: Option<Millis>,
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
    /// Before the first sleep nothing is known: try `accept`.
    fn default() -> Readable {
        Readable { sessions: Vec::new(), clients_waiting: true }
    }
}

/// The registrations of a sleep.
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
    /// A server with only its own database `_Server`. Relative names of Unix sockets are relative to
    /// `rundir`.
    pub fn new(rundir: &Path, limits: Limits) -> Server {
        let mut core = Box::new(Core::new(limits));
        core.add_about();
        Server {
            core,
            conns: BTreeMap::new(),
            jobs: Jobs::new(),
            gone: Vec::new(),
            served: 0,
            remotes: Remotes::default(),
            tls: crate::tls_names::TlsNames::default(),
            status_due: None,
            complaints: Vec::new(),
            resolved_at: None,
            rundir: rundir.to_owned(),
            next_session: 0,
            accept_again: None,
            buffer: vec![0; READ_LEN],
        }
    }

    /// The wanted remotes, for changes.
    pub fn remotes_mut(&mut self) -> &mut RemoteNames {
        self.resolved_at = None;
        &mut self.remotes.wanted
    }

    /// The wanted remotes.
    pub fn remotes(&self) -> &RemoteNames {
        &self.remotes.wanted
    }

    /// Returns whether a job has the databases; functions that need them wait for it.
    pub fn is_busy(&self) -> bool {
        self.jobs.has_core()
    }

    /// The core; waits for the job that has it, if any.
    pub(crate) fn core(&mut self) -> &mut Core {
        while self.jobs.has_core() {
            let done = self.jobs.next(true);
            self.take_done(done);
        }
        &mut self.core
    }

    /// Processes everything that is ready.
    pub fn run(&mut self, readable: &Readable, now: Millis) {
        while let Some(done) = self.jobs.next(false) {
            self.take_done(Some(done));
        }
        if !self.is_busy() {
            self.configure(now);
        }
        if readable.clients_waiting || self.accept_again.is_some() {
            self.accept(now);
        }
        for arrival in self.remotes.call(now) {
            self.admit(arrival);
        }
        self.read(readable, now);
        if !self.is_busy() {
            self.write_status(now);
            self.carry_out();
        }
        self.conns.values_mut().for_each(|conn| conn.probe(now));
        if self.is_busy() {
            self.conns.values().for_each(Conn::notice_hangup);
            self.conns.values_mut().for_each(Conn::answer_probes);
        }
        self.conns.values_mut().for_each(Conn::flush);
        self.drop_closed(now);
    }

    /// Opens and closes sockets as the user and columns require.
    fn configure(&mut self, now: Millis) {
        let generation = self.settings_generation();
        let retry = self.remotes.deadline(now).is_some_and(|at| at <= now);
        if self.resolved_at == Some(generation) && !retry {
            return;
        }
        self.resolved_at = Some(generation);
        let (resolved, complaints) = self.resolve();
        for gone in self.remotes.reconcile(&resolved, &self.rundir, now) {
            let of_it = self.conns.values_mut().filter(|s| s.remote == gone);
            of_it.for_each(|conn| conn.end(Loss::Dropped));
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
        self.log_errors(complaints);
    }

    /// Changes when the settings of remotes and TLS may have changed.
    fn settings_generation(&self) -> u64 {
        if self.reads_settings() { self.core.generation() } else { 0 }
    }

    /// Registers the events and deadlines that end the caller's next sleep.
    pub fn wait<'a>(&'a self, set: &mut WaitSet<'a>, now: Millis) -> Waits {
        let full = self.conns.len() >= MAX_SESSIONS || self.accept_again.is_some();
        let has_room = |name: &str| !full && self.clients_of(name) < self.core.limits.sessions;
        let mut waits = Waits { listeners: self.remotes.wait(set, has_room), ..Waits::default() };
        for (id, conn) in &self.conns {
            let held = self.core.sessions.get(id).is_some_and(Session::can_send_held);
            if conn.unread && conn.wants_input() || (held || conn.has_waiting()) && !self.is_busy() {
                set.wake_now();
            }
            let interest = match (conn.wants_input(), conn.has_output()) {
                (true, true) => Interest::Both,
                (false, true) => Interest::Write,
                (true, false) => Interest::Read,
                // Not read until its requests have been executed.
                (false, false) => {
                    conn.link.deadline(now).into_iter().for_each(|at| set.deadline(at));
                    continue;
                }
            };
            let token = set.fd(&conn.stream, interest);
            if conn.wants_input() {
                waits.sessions.push((*id, token));
            }
            conn.link.deadline(now).into_iter().for_each(|at| set.deadline(at));
        }
        if let Some(at) = self.core.patience() {
            // One more millisecond, since the deadline is rounded down: it must have passed when the loop
            // wakes.
            let left = at.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
            set.deadline(Millis(now.0 + u64::try_from(left.as_millis()).unwrap_or(u64::MAX / 2)));
        }
        if self.core.databases.values().any(Served::is_compacting) {
            set.deadline(Millis(now.0 + COMPACTION_POLL_MS));
        }
        if self.jobs.any() {
            set.deadline(Millis(now.0 + JOB_POLL_MS));
        } else if self.resolved_at != Some(self.settings_generation()) {
            set.wake_now();
        }
        // Deadlines that need the core wait for it; running jobs are polled.
        let of_core = [self.remotes.deadline(now), self.status_due].map(|at| at.filter(|_| !self.is_busy()));
        let others = [self.accept_again].into_iter().chain(of_core);
        others.flatten().for_each(|at| set.deadline(at));
        waits
    }

    fn clients_of(&self, remote: &str) -> usize {
        self.conns.values().filter(|conn| conn.remote == remote).count()
    }

    fn accept(&mut self, now: Millis) {
        self.accept_again = self.accept_again.filter(|at| *at > now);
        if self.accept_again.is_some() {
            return;
        }
        let mut fresh = Vec::new();
        for (name, remote) in &self.remotes.active {
            let End::Listening(listener) = &remote.end else { continue };
            // A remote that has reached its limit does not affect the others.
            let mut room = self.core.limits.sessions.saturating_sub(self.clients_of(name));
            while room > 0 && self.conns.len() + fresh.len() < MAX_SESSIONS {
                match listener.accept() {
                    Ok(Some(stream)) => fresh.push(arrived(stream, name, &remote.options, now)),
                    Ok(None) => break,
                    Err(error) => {
                        // The client is still waiting, so polling the listener would not sleep: pause.
                        log_accept_error(name, &error);
                        self.accept_again = Some(Millis(now.0 + ACCEPT_PAUSE_MS));
                        break;
                    }
                }
                room -= 1;
            }
        }
        fresh.into_iter().for_each(|arrival| self.admit(arrival));
    }

    fn admit(&mut self, arrival: Arrival) {
        self.next_session += 1;
        let id = self.next_session;
        if let Some(End::Calling { session, .. }) =
            self.remotes.active.get_mut(&arrival.remote).map(|r| &mut r.end)
        {
            *session = Some(id);
        }
        self.conns.insert(id, Conn::new(arrival, &self.core.limits));
    }

    /// Reads from the readable clients, and starts jobs for long messages.
    fn read(&mut self, readable: &Readable, now: Millis) {
        let unread = self.conns.iter().filter(|(_, c)| c.unread).map(|(id, _)| *id);
        let mut readable: Vec<SessionId> = readable.sessions.iter().copied().chain(unread).collect();
        readable.sort_unstable();
        readable.dedup();
        for id in readable {
            if let Some(conn) = self.conns.get_mut(&id).filter(|c| !c.closed && c.wants_input()) {
                conn.receive(now, &mut self.buffer);
            }
        }
        for (id, conn) in &mut self.conns {
            if !self.jobs.can_parse() {
                break;
            }
            if let Some(text) = conn.take_long() {
                self.jobs.parse(*id, text);
            }
        }
        self.bound_input();
    }

    /// If incomplete messages of all clients exceed the limit, disconnects the client whose message has been
    /// incomplete for longest.
    fn bound_input(&mut self) {
        if self.conns.values().map(Conn::input_len).sum::<usize>() <= MAX_INPUT_LEN {
            return;
        }
        let unfinished = self.conns.values_mut().filter(|c| c.unfinished.is_some() && !c.closed);
        if let Some(conn) = unfinished.min_by_key(|c| c.unfinished) {
            runtime::warn_rl!(
                LOG,
                LIMIT,
                "{}: message unfinished for long and memory short, disconnecting",
                conn.stream.name()
            );
            conn.end(Loss::Dropped);
        }
    }

    /// Executes requests, one of each session in turn, until none waits, the time share is used up or a job
    /// has the core.
    fn carry_out(&mut self) {
        let began = Instant::now();
        self.join_sessions();
        let ready = self.conns.iter().filter(|(_, c)| c.has_waiting() && !c.closed).map(|(id, _)| *id);
        let (before, after): (Vec<_>, Vec<_>) = ready.partition(|id| *id <= self.served);
        let mut ready = VecDeque::from([after, before].concat());
        while let Some(id) = ready.pop_front() {
            let Some(conn) = self.conns.get_mut(&id) else { continue };
            let Some(next) = conn.next_waiting() else { continue };
            self.served = id;
            if self.core.is_heavy(&next) {
                ready.push_front(id);
                let work = self.collect_work((id, next.message), ready);
                return self.finish(work, true);
            }
            if conn.has_waiting() {
                ready.push_back(id);
            }
            self.core.carry_out(Work { requests: vec![(id, next.message)], ..Work::default() });
            if began.elapsed() > SHARE {
                break;
            }
        }
        self.finish(Work::default(), false);
    }

    /// The work for one job: the request that needs it, and some more of each session, so that short requests
    /// to a large database share the cost of a job.
    fn collect_work(&mut self, first: (SessionId, Long), ready: VecDeque<SessionId>) -> Work {
        let mut work = Work { requests: vec![first], ..Work::default() };
        for id in ready {
            let Some(conn) = self.conns.get_mut(&id) else { continue };
            // A probe is answered before the job, even if it arrived in the same turn.
            conn.answer_probes();
            let some = std::iter::from_fn(|| conn.next_waiting()).take(REQUESTS_PER_JOB);
            work.requests.extend(some.map(|waiting| (id, waiting.message)));
        }
        work
    }

    /// Ends a turn of the core: in a last job if the remaining work is heavy, else here.
    fn finish(&mut self, mut work: Work, mut heavy: bool) {
        for (id, session) in self.core.sessions.iter().filter(|(_, s)| s.can_send_held()) {
            heavy |= Core::is_heavy_to_tell(session);
            work.release.push(*id);
        }
        heavy |= self.core.databases.values().any(Served::is_compacted);
        heavy |= self.core.may_retry() && self.core.is_heavy_to_retry();
        if heavy {
            let limits = self.core.limits;
            let core = std::mem::replace(&mut self.core, Box::new(Core::new(limits)));
            return self.jobs.work(core, work);
        }
        self.core.carry_out(work);
        self.core.settle();
        self.take_output();
    }

    fn take_done(&mut self, done: Option<Done>) {
        match done {
            Some(Done::Parsed(id, parsed)) => {
                if let Some(conn) = self.conns.get_mut(&id) {
                    conn.parsed_long(parsed);
                }
            }
            Some(Done::Core(core)) => {
                self.core = core;
                self.take_output();
            }
            None => {}
        }
    }

    /// Adds sessions for new connections to the core, removes those of ended connections, and updates the
    /// backlog of the others.
    fn join_sessions(&mut self) {
        for id in std::mem::take(&mut self.gone) {
            self.core.end_session(id);
        }
        for (id, conn) in &self.conns {
            let fresh = || Session::new(conn.stream.name(), conn.options.clone(), Arc::clone(&conn.hung_up));
            let session = self.core.sessions.entry(*id).or_insert_with(fresh);
            if session.peer_id.is_none() {
                session.peer_id = conn.stream.peer_id().map(str::to_owned);
            }
            session.backlog = conn.backlog();
        }
    }

    /// Moves the sessions' output to their connections, and ends connections whose session has ended.
    pub(crate) fn take_output(&mut self) {
        for (id, conn) in &mut self.conns {
            let Some(session) = self.core.sessions.get_mut(id) else { continue };
            session.output.drain(..).for_each(|text| conn.send_text(text));
            conn.flush();
            session.backlog = conn.backlog();
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
                self.remotes.ended(&name, id, conn.into_link(now));
            }
            self.gone.push(id);
        }
        if !self.is_busy() {
            self.join_sessions();
            self.take_output();
        }
    }

    /// Ends all connections; the server reconnects those that it made.
    pub fn reconnect(&mut self) {
        self.conns.values_mut().for_each(|conn| conn.end(Loss::Dropped));
    }
}

impl Drop for Server {
    /// Waits for the running job, so that the files are closed when the server is dropped.
    fn drop(&mut self) {
        _ = self.core();
    }
}
