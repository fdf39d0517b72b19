//! The server and its turn: configure, accept, read, execute, store, answer, write.
//!
//! One thread owns it all. The owner of the thread sleeps in between on what [`Server::wait`] names, and says with the next
//! [`Server::run`] who was heard.

use crate::batch::Served;
use crate::remotes::{Arrival, End, RemoteNames, Remotes, arrived, complain_of_accept};
use crate::session::{READ_LEN, Session, SessionId};
use ovsdb::{LockTable, Uuid};
use runtime::poll_loop::{Interest, Ready, Token, WaitSet};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use transport::Loss;
use units::Millis;

/// Most clients at a time; further ones wait in the listener's queue.
const MAX_SESSIONS: usize = 4096;

/// How often a compaction under way is looked at.
const COMPACTION_POLL_MS: u64 = 10;

/// How long nobody is let in after that failed.
const ACCEPT_PAUSE_MS: u64 = 200;

/// A database server.
pub struct Server {
    pub(crate) databases: BTreeMap<String, Served>,
    pub(crate) sessions: BTreeMap<SessionId, Session>,
    pub(crate) locks: LockTable<SessionId>,
    pub(crate) id: Uuid,
    pub(crate) remotes: Remotes,
    pub(crate) tls: crate::columns::TlsNames,
    pub(crate) status_due: Option<Millis>,
    /// What of the configuration could not be had, as last said.
    pub(crate) complaints: Vec<String>,
    /// Generations at which the remotes were resolved, and whether they must be in any case.
    resolved_at: Option<u64>,
    rundir: PathBuf,
    next_session: SessionId,
    /// When to accept again, after the system had no file descriptor to spare.
    accept_again: Option<Millis>,
    /// The generations that waiting transactions have last seen.
    seen: u64,
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
    pub fn new(rundir: &Path) -> Server {
        let mut server = Server {
            databases: BTreeMap::new(),
            sessions: BTreeMap::new(),
            locks: LockTable::new(),
            id: Uuid::new_v4(),
            remotes: Remotes::default(),
            tls: crate::columns::TlsNames::default(),
            status_due: None,
            complaints: Vec::new(),
            resolved_at: None,
            rundir: rundir.to_owned(),
            next_session: 0,
            accept_again: None,
            seen: 0,
            buffer: vec![0; READ_LEN],
        };
        server.add_about();
        server
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

    /// Does what can be done now.
    pub fn run(&mut self, heard: &Heard, now: Millis) {
        self.configure(now);
        if heard.knocks || self.accept_again.is_some() {
            self.accept(now);
        }
        for arrival in self.remotes.call(now) {
            self.admit(arrival);
        }
        let unread = self.sessions.iter().filter(|(_, s)| s.unread && s.wants_input()).map(|(id, _)| *id);
        let mut heard: Vec<SessionId> = heard.sessions.iter().copied().chain(unread).collect();
        heard.sort_unstable();
        heard.dedup();
        for id in heard {
            self.read(id, now);
        }
        self.write_status(now);
        self.answer();
        self.databases.values_mut().for_each(Served::progress);
        self.retry_blocked();
        self.sessions.values_mut().for_each(|session| session.probe(now));
        self.flush();
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
            let of_it = self.sessions.values_mut().filter(|s| s.remote == gone);
            of_it.for_each(|session| session.end(Loss::Dropped));
        }
        for session in self.sessions.values_mut() {
            if let Some(remote) =
                self.remotes.active.get(&session.remote).filter(|r| r.options != session.options)
            {
                session.options = remote.options.clone();
                session.link.set_probe_interval(session.options.probe_interval_ms);
                session.link.set_max_backoff(session.options.max_backoff_ms);
            }
        }
        self.complain(complaints);
    }

    fn generation(&self) -> u64 {
        self.databases.values().map(|served| served.generation).sum()
    }

    /// Changes with what remotes and TLS may depend on.
    fn settings_generation(&self) -> u64 {
        if self.reads_settings() { self.generation() } else { 0 }
    }

    /// Sleeps, in the caller's loop, until something happens.
    pub fn wait<'a>(&'a self, set: &mut WaitSet<'a>, now: Millis) -> Waits {
        let full = self.sessions.len() >= MAX_SESSIONS || self.accept_again.is_some();
        let mut waits = Waits { listeners: self.remotes.wait(set, full), ..Waits::default() };
        for (id, session) in &self.sessions {
            if session.unread && session.wants_input() || session.holds_changes() && !session.has_output() {
                set.wake_now();
            }
            let interest = match (session.wants_input(), session.has_output()) {
                (true, true) => Interest::Both,
                (false, true) => Interest::Write,
                (_, false) => Interest::Read,
            };
            let token = set.fd(&session.stream, interest);
            if session.wants_input() {
                waits.sessions.push((*id, token));
            }
            session.link.deadline(now).into_iter().for_each(|at| set.deadline(at));
        }
        let patience = self.sessions.values().flat_map(|s| s.blocked.iter().filter_map(|b| b.deadline));
        if let Some(at) = patience.min() {
            // One more millisecond, so that the deadline is past when the time is read.
            let left = at.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
            set.deadline(Millis(now.0 + u64::try_from(left.as_millis()).unwrap_or(u64::MAX / 2)));
        }
        if self.databases.values().any(Served::is_compacting) {
            set.deadline(Millis(now.0 + COMPACTION_POLL_MS));
        }
        let others = [self.accept_again, self.remotes.deadline(now), self.status_due];
        others.into_iter().flatten().for_each(|at| set.deadline(at));
        if self.resolved_at != Some(self.settings_generation()) {
            set.wake_now();
        }
        waits
    }

    fn accept(&mut self, now: Millis) {
        self.accept_again = self.accept_again.filter(|at| *at > now);
        if self.accept_again.is_some() {
            return;
        }
        let mut fresh = Vec::new();
        for (name, remote) in &self.remotes.active {
            let End::Listening(listener) = &remote.end else { continue };
            while self.sessions.len() + fresh.len() < MAX_SESSIONS {
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
            }
        }
        fresh.into_iter().for_each(|arrival| self.admit(arrival));
    }

    fn admit(&mut self, Arrival { stream, link, remote, options }: Arrival) {
        self.next_session += 1;
        let id = self.next_session;
        if let Some(End::Calling { session, .. }) = self.remotes.active.get_mut(&remote).map(|r| &mut r.end) {
            *session = Some(id);
        }
        let mut session = Session::new(stream, link, &remote, options);
        session.unread = true;
        self.sessions.insert(id, session);
    }

    fn read(&mut self, id: SessionId, now: Millis) {
        let Some(session) = self.sessions.get_mut(&id).filter(|s| !s.closed) else { return };
        let messages = session.receive(now, &mut self.buffer);
        // What came before the end of the stream is still heard; what comes after a message that ends it is not.
        let ended = session.closed;
        for message in messages {
            self.handle(id, message);
            if !ended && self.sessions.get(&id).is_none_or(|s| s.closed) {
                return;
            }
        }
    }

    /// Tries waiting transactions again: all when a database changed, else those that give up.
    fn retry_blocked(&mut self) {
        loop {
            let generation = self.generation();
            let changed = std::mem::replace(&mut self.seen, generation) != generation;
            let now = Instant::now();
            let mut due = Vec::new();
            for (id, session) in &mut self.sessions {
                let (ripe, rest) = std::mem::take(&mut session.blocked)
                    .into_iter()
                    .partition(|b| changed || b.deadline.is_some_and(|at| at <= now));
                session.blocked = rest;
                due.extend(Vec::into_iter(ripe).map(|blocked| (*id, blocked)));
            }
            if due.is_empty() {
                return;
            }
            for (id, blocked) in due {
                self.transact(id, blocked.id, blocked.params, blocked.since);
            }
            self.answer();
        }
    }

    fn flush(&mut self) {
        let databases = &self.databases;
        for session in self.sessions.values_mut() {
            session.flush();
            if session.holds_changes() && !session.has_output() {
                session.release(|name| databases.get(name).map(|served| served.db.schema().as_ref()));
                session.flush();
            }
        }
    }

    fn drop_closed(&mut self, now: Millis) {
        let closed: Vec<SessionId> =
            self.sessions.iter().filter(|(_, s)| s.closed).map(|(id, _)| *id).collect();
        for id in closed {
            if let Some(mut session) = self.sessions.remove(&id) {
                let name = std::mem::take(&mut session.remote);
                self.remotes.ended(&name, id, session.into_link(now));
            }
            for (lock, heir) in self.locks.end_session(id) {
                self.notify_lock(heir, "locked", &lock);
            }
        }
    }

    /// Ends all connections; those that we made are made again.
    pub fn reconnect(&mut self) {
        self.sessions.values_mut().for_each(|session| session.end(Loss::Dropped));
    }
}
