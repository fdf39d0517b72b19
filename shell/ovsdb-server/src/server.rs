//! The server and its turn: configure, accept, read, carry out, write.
//!
//! One thread owns the sockets. The owner of the thread sleeps in between on what [`Server::wait`] names, and says with the
//! next [`Server::run`] who was heard. The databases are in the [`Core`], which the thread uses itself for what is done in
//! a few milliseconds; for what may take longer it hands the core to a job and goes on without it: it reads, writes and
//! answers probes, and requests wait until the core is back.

use crate::batch::Served;
use crate::conn::{Conn, READ_LEN};
use crate::core::{Core, Work};
use crate::jobs::{Done, Jobs};
use crate::limits::Limits;
use crate::remotes::{Arrival, End, RemoteNames, Remotes, arrived, complain_of_accept};
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

/// Most clients at a time; further ones wait in the listener's queue.
const MAX_SESSIONS: usize = 4096;

/// Requests of all clients that are unfinished or wait take at most so many bytes of text.
const MAX_INPUT_LEN: usize = 512 << 20;

/// How often a compaction under way is looked at.
const COMPACTION_POLL_MS: u64 = 10;

/// How often jobs under way are looked at.
const JOB_POLL_MS: u64 = 1;

/// Requests of one session that a job carries out at most.
const REQUESTS_PER_JOB: usize = 16;

/// How long requests are carried out before sockets have their turn again.
const SHARE: Duration = Duration::from_millis(20);

/// How long nobody is let in after that failed.
const ACCEPT_PAUSE_MS: u64 = 200;

/// A database server.
pub struct Server {
    pub(crate) core: Box<Core>,
    pub(crate) conns: BTreeMap<SessionId, Conn>,
    jobs: Jobs,
    /// Sessions that ended while a job had the core.
    gone: Vec<SessionId>,
    /// The session that had the last turn.
    served: SessionId,
    pub(crate) remotes: Remotes,
    pub(crate) tls: crate::tls_names::TlsNames,
    pub(crate) status_due: Option<Millis>,
    /// What of the configuration could not be had, as last said.
    pub(crate) complaints: Vec<String>,
    /// Generations at which the remotes were resolved, and whether they must be in any case.
    resolved_at: Option<u64>,
    rundir: PathBuf,
    next_session: SessionId,
    /// When to accept again, after the system had no file descriptor to spare.
    accept_again: Option<Millis>,
    /// For reading.
    buffer: Vec<u8>,
}

/// Who is to be heard in a turn.
pub struct Heard {
    sessions: Vec<SessionId>,
    /// Somebody may be at a listening socket.
    knocks: bool,
}

impl Default for Heard {
    /// Nobody knows: as before the first sleep.
    fn default() -> Heard {
        Heard { sessions: Vec::new(), knocks: true }
    }
}

/// What the sleep was for.
#[derive(Default)]
pub struct Waits {
    sessions: Vec<(SessionId, Token)>,
    listeners: Vec<Token>,
}

impl Waits {
    /// Who can be heard after the sleep.
    pub fn heard(self, ready: &Ready) -> Heard {
        let sessions = self.sessions.into_iter().filter(|(_, token)| ready.contains(*token));
        let knocks = self.listeners.into_iter().any(|token| ready.contains(token));
        Heard { sessions: sessions.map(|(id, _)| id).collect(), knocks }
    }
}

impl Server {
    /// A server of no database but its own. Relative names of Unix sockets are below `rundir`.
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

    /// The remotes that are wanted, to be changed.
    pub fn remotes_mut(&mut self) -> &mut RemoteNames {
        self.resolved_at = None;
        &mut self.remotes.wanted
    }

    /// The remotes that are wanted.
    pub fn remotes(&self) -> &RemoteNames {
        &self.remotes.wanted
    }

    /// Whether a job has the databases: what asks for them has to wait for it.
    pub fn is_busy(&self) -> bool {
        self.jobs.has_core()
    }

    /// The core, where need be after the job that has it.
    pub(crate) fn core(&mut self) -> &mut Core {
        while self.jobs.has_core() {
            let done = self.jobs.next(true);
            self.take_done(done);
        }
        &mut self.core
    }

    /// Does what can be done now.
    pub fn run(&mut self, heard: &Heard, now: Millis) {
        while let Some(done) = self.jobs.next(false) {
            self.take_done(Some(done));
        }
        if !self.is_busy() {
            self.configure(now);
        }
        if heard.knocks || self.accept_again.is_some() {
            self.accept(now);
        }
        for arrival in self.remotes.call(now) {
            self.admit(arrival);
        }
        self.read(heard, now);
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

    /// Opens and closes sockets as wished, by the user and by columns.
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
        self.complain(complaints);
    }

    /// Changes with what remotes and TLS may depend on.
    fn settings_generation(&self) -> u64 {
        if self.reads_settings() { self.core.generation() } else { 0 }
    }

    /// Sleeps, in the caller's loop, until something happens.
    pub fn wait<'a>(&'a self, set: &mut WaitSet<'a>, now: Millis) -> Waits {
        let full = self.conns.len() >= MAX_SESSIONS || self.accept_again.is_some();
        let has_room = |name: &str| !full && self.clients_of(name) < self.core.limits.sessions;
        let mut waits = Waits { listeners: self.remotes.wait(set, has_room), ..Waits::default() };
        for (id, conn) in &self.conns {
            let told = self.core.sessions.get(id).is_some_and(Session::can_be_told);
            if conn.unread && conn.wants_input() || (told || conn.has_waiting()) && !self.is_busy() {
                set.wake_now();
            }
            let interest = match (conn.wants_input(), conn.has_output()) {
                (true, true) => Interest::Both,
                (false, true) => Interest::Write,
                (true, false) => Interest::Read,
                // It is heard again when its requests have been carried out.
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
            // One more millisecond, so that the deadline is past when the time is read.
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
        // What needs the core waits for it; jobs are looked at often.
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
            // A remote that has all that it may have leaves the others room.
            let mut room = self.core.limits.sessions.saturating_sub(self.clients_of(name));
            while room > 0 && self.conns.len() + fresh.len() < MAX_SESSIONS {
                match listener.accept() {
                    Ok(Some(stream)) => fresh.push(arrived(stream, name, &remote.options, now)),
                    Ok(None) => break,
                    Err(error) => {
                        // The client may still knock, so polling for it would not sleep.
                        complain_of_accept(name, &error);
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

    /// Reads from the clients that were heard, and has long messages parsed.
    fn read(&mut self, heard: &Heard, now: Millis) {
        let unread = self.conns.iter().filter(|(_, c)| c.unread).map(|(id, _)| *id);
        let mut heard: Vec<SessionId> = heard.sessions.iter().copied().chain(unread).collect();
        heard.sort_unstable();
        heard.dedup();
        for id in heard {
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

    /// Where unfinished messages of many clients take too much, the one goes that is unfinished longest.
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

    /// Carries out requests, one of each session after the other, until none waits, their share of time is used up or a job
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
                let work = self.gather((id, next.message), ready);
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

    /// What a job does at once: the request that is for it, and some more of each session, so that short requests to a large
    /// database share the cost of a job.
    fn gather(&mut self, first: (SessionId, Long), ready: VecDeque<SessionId>) -> Work {
        let mut work = Work { requests: vec![first], ..Work::default() };
        for id in ready {
            let Some(conn) = self.conns.get_mut(&id) else { continue };
            // A probe does not wait for a job, also if it came in the same turn.
            conn.answer_probes();
            let some = std::iter::from_fn(|| conn.next_waiting()).take(REQUESTS_PER_JOB);
            work.requests.extend(some.map(|waiting| (id, waiting.message)));
        }
        work
    }

    /// Ends a turn of the core: with a last piece of work for a job, or here.
    fn finish(&mut self, mut work: Work, mut heavy: bool) {
        for (id, session) in self.core.sessions.iter().filter(|(_, s)| s.can_be_told()) {
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

    /// Gives connections that have come a session of the core, ends the sessions of those that have gone, and tells the others
    /// how much waits for their clients.
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

    /// Takes over what sessions have to send, and what ended them.
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

    /// Ends all connections; those that we made are made again.
    pub fn reconnect(&mut self) {
        self.conns.values_mut().for_each(|conn| conn.end(Loss::Dropped));
    }
}

impl Drop for Server {
    /// What a job has begun is finished, so that the files are closed when the server has gone.
    fn drop(&mut self) {
        _ = self.core();
    }
}
