//! The databases, with what their clients have to do with them: all that requests read and change.
//!
//! It has no sockets, so that it can be handed to a job: while one request takes long, the thread of the sockets goes on
//! reading, writing and answering probes. Requests are carried out one after another, by whoever has the core.

use crate::batch::Served;
use crate::limits::Limits;
use crate::session::{Session, SessionId};
use ovsdb::{LockTable, Long, Uuid};
use std::collections::BTreeMap;
use std::time::Instant;

/// See the module.
pub struct Core {
    pub databases: BTreeMap<String, Served>,
    pub sessions: BTreeMap<SessionId, Session>,
    pub locks: LockTable<SessionId>,
    pub id: Uuid,
    pub limits: Limits,
    /// The generations that waiting transactions have last seen.
    seen: u64,
}

/// What is to be done in one go.
#[derive(Default)]
pub struct Work {
    /// One request each of some sessions.
    pub requests: Vec<(SessionId, Long)>,
    /// Sessions that have read on, so that they can be told of the changes that were held back.
    pub release: Vec<SessionId>,
}

impl Core {
    /// Without databases and clients; it stands in while a job has the real one, and is asked nothing.
    pub fn new(limits: Limits) -> Core {
        Core {
            databases: BTreeMap::new(),
            sessions: BTreeMap::new(),
            locks: LockTable::new(),
            id: Uuid::new_v4(),
            limits,
            seen: 0,
        }
    }

    /// Carries out requests; [`Core::settle`] has to follow.
    pub fn carry_out(&mut self, work: Work) {
        for id in work.release {
            let databases = &self.databases;
            if let Some(session) = self.sessions.get_mut(&id).filter(|s| s.can_be_told()) {
                session.release(|name| databases.get(name).map(|served| served.db.schema().as_ref()));
            }
        }
        for (id, message) in work.requests {
            // What a client asked for before it was cut off, or ended its side, is still done; what comes after is not.
            if self.sessions.get(&id).is_some_and(|s| !s.is_over()) {
                self.handle(id, message);
            }
        }
    }

    /// Stores what was changed, answers, and tries waiting transactions again.
    pub fn settle(&mut self) {
        self.answer();
        self.databases.values_mut().for_each(Served::progress);
        self.retry_blocked();
    }

    /// Grows with every stored change.
    pub fn generation(&self) -> u64 {
        self.databases.values().map(|served| served.generation).sum()
    }

    /// Whether waiting transactions would be tried again.
    pub fn may_retry(&self) -> bool {
        let waits = self.sessions.values().any(|s| !s.blocked.is_empty());
        let changed = || self.seen != self.generation() || self.databases.values().any(Served::has_pending);
        waits && (changed() || self.patience().is_some_and(|at| at <= Instant::now()))
    }

    /// When the next waiting transaction gives up.
    pub fn patience(&self) -> Option<Instant> {
        self.sessions.values().flat_map(|s| s.blocked.iter().filter_map(|b| b.deadline)).min()
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

    /// Forgets a session.
    pub fn end_session(&mut self, id: SessionId) {
        self.sessions.remove(&id);
        for (lock, heir) in self.locks.end_session(id) {
            self.notify_lock(heir, "locked", &lock);
        }
    }
}
