//! The core: the databases and the sessions of their clients, which is all state that requests read and change.
//!
//! The core has no sockets, so it can be moved to a job: while the job executes a long request, the socket thread
//! continues to read, write and answer probes. Requests are executed one after another, by the current owner of the core.

use crate::batch::ServedDatabase;
use crate::limits::Limits;
use crate::session::{Retries, Session, SessionId};
use ovsdb::{ClientMessage, LockTable, Uuid};
use std::collections::BTreeMap;

/// The databases, sessions and locks.
pub struct Core {
    pub databases: BTreeMap<String, ServedDatabase>,
    pub sessions: BTreeMap<SessionId, Session>,
    pub locks: LockTable<SessionId>,
    /// The server's ID (`get_server_id`).
    pub id: Uuid,
    pub limits: Limits,
    /// The session whose blocked transaction was retried last.
    pub(crate) last_retried: SessionId,
}

/// The work of one turn or job.
#[derive(Default)]
pub struct Work {
    /// Requests to execute, in this order.
    pub requests: Vec<(SessionId, ClientMessage)>,
    /// Sessions whose held changes can be sent, because their clients have read all output.
    pub send_held: Vec<SessionId>,
    /// Blocked transactions to retry after the requests.
    pub retries: Retries,
}

impl Core {
    /// An empty core. It is also the unused placeholder while a job has the real core.
    pub fn new(limits: Limits) -> Core {
        Core {
            databases: BTreeMap::new(),
            sessions: BTreeMap::new(),
            locks: LockTable::new(),
            id: Uuid::new_v4(),
            limits,
            last_retried: 0,
        }
    }

    /// Sends held changes, executes requests and retries blocked transactions, in this order. The caller must then call
    /// [`Core::finish_work`].
    pub fn execute_work(&mut self, work: Work) {
        for id in work.send_held {
            let databases = &self.databases;
            if let Some(session) = self.sessions.get_mut(&id).filter(|s| s.can_send_held()) {
                session
                    .send_held_changes(|name| databases.get(name).map(|served| served.db.schema().as_ref()));
            }
        }
        for (id, message) in work.requests {
            // A request may end its session; later requests of that session are not executed.
            if self.sessions.get(&id).is_some_and(|s| !s.is_over()) {
                self.handle(id, message);
            }
        }
        self.retry(work.retries, true);
    }

    /// Stores the changes, and sends replies and updates.
    pub fn finish_work(&mut self) {
        self.store_and_reply();
        self.databases.values_mut().for_each(ServedDatabase::replace_file_if_rewritten);
    }

    /// Increases with every stored change.
    pub fn generation(&self) -> u64 {
        self.databases.values().map(|served| served.generation).sum()
    }

    /// Removes a session, and notifies the sessions that now own its locks.
    pub fn end_session(&mut self, id: SessionId) {
        self.sessions.remove(&id);
        for (lock, new_owner) in self.locks.end_session(id) {
            self.notify_lock(new_owner, "locked", &lock);
        }
    }
}
