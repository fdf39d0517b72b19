//! The databases and the sessions of their clients: all state that requests read and change.
//!
//! The core has no sockets, so it can be moved to a job: while a long request is executed, the socket thread
//! continues to read, write and answer probes. Requests are executed one after another, by the current owner
//! of the core.

use crate::batch::Served;
use crate::limits::Limits;
use crate::session::{Session, SessionId};
use ovsdb::{LockTable, Long, Uuid};
use std::collections::BTreeMap;
use std::time::Instant;

/// The databases, sessions and locks.
pub struct Core {
    pub databases: BTreeMap<String, Served>,
    pub sessions: BTreeMap<SessionId, Session>,
    pub locks: LockTable<SessionId>,
    pub id: Uuid,
    pub limits: Limits,
    /// The sum of generations at the last retry of waiting transactions.
    seen: u64,
}

/// The work of one turn or job.
#[derive(Default)]
pub struct Work {
    /// Requests, in order.
    pub requests: Vec<(SessionId, Long)>,
    /// Sessions whose clients have read their output, and can get the changes that were held back.
    pub release: Vec<SessionId>,
}

impl Core {
    /// An empty core. It is the placeholder while a job has the real one, and is not used.
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

    /// Executes requests; [`Core::settle`] must follow.
    pub fn carry_out(&mut self, work: Work) {
        for id in work.release {
            let databases = &self.databases;
            if let Some(session) = self.sessions.get_mut(&id).filter(|s| s.can_send_held()) {
                session.release(|name| databases.get(name).map(|served| served.db.schema().as_ref()));
            }
        }
        for (id, message) in work.requests {
            // Requests before the end of a session are still executed; later ones are not.
            if self.sessions.get(&id).is_some_and(|s| !s.is_over()) {
                self.handle(id, message);
            }
        }
    }

    /// Stores the changes, sends replies, and retries waiting transactions.
    pub fn settle(&mut self) {
        self.answer();
        self.databases.values_mut().for_each(Served::progress);
        self.retry_blocked();
    }

    /// Increases with every stored change.
    pub fn generation(&self) -> u64 {
        self.databases.values().map(|served| served.generation).sum()
    }

    /// Returns whether waiting transactions would be retried.
    pub fn may_retry(&self) -> bool {
        let waits = self.sessions.values().any(|s| !s.blocked.is_empty());
        let changed = || self.seen != self.generation() || self.databases.values().any(Served::has_pending);
        waits && (changed() || self.patience().is_some_and(|at| at <= Instant::now()))
    }

    /// The earliest timeout of a waiting transaction.
    pub fn patience(&self) -> Option<Instant> {
        self.sessions.values().flat_map(|s| s.blocked.iter().filter_map(|b| b.deadline)).min()
    }

    /// Retries waiting transactions: all after a change, else those whose time is over.
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

    /// Removes a session.
    pub fn end_session(&mut self, id: SessionId) {
        self.sessions.remove(&id);
        for (lock, heir) in self.locks.end_session(id) {
            self.notify_lock(heir, "locked", &lock);
        }
    }
}
