//! One client as the databases see it: its monitors, what it waits for, what it is owed.
//!
//! A client that reads slowly is not sent every update: while bytes wait for it, changes are merged row by row, and it gets
//! one update for all of them when it has read on. So what it can make the server keep is bounded by the database.

use crate::remote_options::RemoteOptions;
use ovsdb::{Change, Changes, Json, Message, Monitor, Parameters, Schema, Uuid};
use runtime::{Module, RateLimit};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use transport::Loss;

static JSONRPC: Module = Module::new("jsonrpc");
static LIMIT: RateLimit = RateLimit::new(5, 5);

/// A client that leaves so many bytes unread is cut off.
const MAX_BACKLOG_LEN: usize = 256 << 20;
/// Most monitors of one session.
pub const MAX_MONITORS: usize = 1000;
/// Most transactions of one session that wait for a condition.
pub const MAX_BLOCKED: usize = 1000;

/// Tells sessions apart; never used twice.
pub type SessionId = u64;

/// A transaction that waits for its condition.
pub struct Blocked {
    /// ID of the request.
    pub id: Json,
    /// The whole request.
    pub params: Parameters,
    /// When it came in.
    pub since: Instant,
    /// When it gives up.
    pub deadline: Option<Instant>,
}

/// What a client that lags behind has not been told about one database.
struct Held {
    changes: BTreeMap<(usize, Uuid), Change>,
    last: Uuid,
}

/// What monitors of each kind are told of one transaction.
pub type Told = BTreeMap<u128, Option<String>>;

/// One client.
pub struct Session {
    /// For the log.
    name: String,
    /// As whom its certificate names it.
    pub peer_id: Option<String>,
    /// How its remote treats its clients.
    pub options: RemoteOptions,
    pub monitors: Vec<Monitor>,
    pub blocked: Vec<Blocked>,
    held: BTreeMap<String, Held>,
    /// Knows what to do when databases come, go or change their schema.
    pub change_aware: bool,
    /// What is to be sent, for the connection to take.
    pub output: Vec<String>,
    /// Bytes that wait to be written, those of `output` among them.
    pub backlog: usize,
    /// Why the connection is to end.
    pub loss: Option<Loss>,
    /// Set by the thread of the sockets when the client has gone, also while a job has the session.
    hung_up: Arc<AtomicBool>,
}

impl Session {
    /// A session of a connection that is up.
    pub fn new(name: &str, options: RemoteOptions, hung_up: Arc<AtomicBool>) -> Session {
        Session {
            name: name.to_owned(),
            peer_id: None,
            options,
            monitors: Vec::new(),
            blocked: Vec::new(),
            held: BTreeMap::new(),
            change_aware: false,
            output: Vec::new(),
            backlog: 0,
            loss: None,
            hung_up,
        }
    }

    /// Whether the client has gone: it closed its connection, rather than only its sending side, or lost it.
    pub fn has_hung_up(&self) -> bool {
        self.hung_up.load(Ordering::Relaxed)
    }

    fn has_output(&self) -> bool {
        self.backlog > 0
    }

    /// Queues a message.
    pub fn send(&mut self, message: &Message) {
        self.send_text(message.to_string());
    }

    /// Queues a message that is text already. One message may be of any length: it may be the whole database.
    pub fn send_text(&mut self, message: String) {
        if self.backlog > MAX_BACKLOG_LEN {
            if self.loss.is_none() {
                runtime::warn_rl!(JSONRPC, LIMIT, "{}: too much unread, disconnecting", self.name);
            }
            return self.end(Loss::Dropped);
        }
        self.backlog += message.len();
        self.output.push(message);
    }

    /// Tells monitors of a transaction, now or when the client has read what there is. `told` is what other sessions were told
    /// of it.
    pub fn tell(&mut self, schema: &Schema, changes: &Changes, transaction: Uuid, told: &mut Told) {
        let concerned = self.monitors.iter().any(|m| m.database() == schema.name);
        if !concerned {
            return;
        }
        if !self.has_output() && self.held.is_empty() {
            return self.update(schema, changes, transaction, told);
        }
        let fresh = || Held { changes: BTreeMap::new(), last: transaction };
        let held = self.held.entry(schema.name.clone()).or_insert_with(fresh);
        held.last = transaction;
        for change in changes {
            held.changes
                .entry((change.table, change.uuid))
                .and_modify(|known| known.new = change.new.clone())
                .or_insert_with(|| change.clone());
        }
    }

    fn update(&mut self, schema: &Schema, changes: &Changes, transaction: Uuid, told: &mut Told) {
        let mut updates = Vec::new();
        for monitor in self.monitors.iter().filter(|m| m.database() == schema.name) {
            let compose = || monitor.shared_part(schema, changes);
            let own;
            let part = match monitor.kind() {
                Some(kind) => told.entry(kind).or_insert_with(compose),
                None => {
                    own = compose();
                    &own
                }
            };
            updates.extend(part.as_ref().map(|part| monitor.notification(part, transaction)));
        }
        updates.into_iter().for_each(|update| self.send_text(update));
    }

    /// How many changes were held back, where a change of a long value counts for more.
    pub fn held_changes(&self) -> usize {
        self.held.values().flat_map(|held| held.changes.values()).map(Change::weight).sum()
    }

    /// Whether changes were held back that can be told now.
    pub fn can_be_told(&self) -> bool {
        !self.held.is_empty() && !self.has_output()
    }

    /// Sends what was held back about the databases that `schema_of` finds.
    pub fn release<'s>(&mut self, schema_of: impl Fn(&str) -> Option<&'s Schema>) {
        for (database, Held { changes, last }) in std::mem::take(&mut self.held) {
            let Some(schema) = schema_of(&database) else {
                self.held.insert(database, Held { changes, last });
                continue;
            };
            let changes = changes.into_values().filter(|c| c.old.is_some() || c.new.is_some()).collect();
            self.update(schema, &changes, last, &mut Told::new());
        }
    }

    /// Forgets all about a database; the answer lists its monitors.
    pub fn leave(&mut self, database: &str) -> Vec<Json> {
        self.held.remove(database);
        let (gone, rest) =
            std::mem::take(&mut self.monitors).into_iter().partition(|m: &Monitor| m.database() == database);
        self.monitors = rest;
        gone.iter().map(|m| m.id().clone()).collect()
    }

    /// Ends the connection with this turn.
    pub fn end(&mut self, loss: Loss) {
        self.loss.get_or_insert(loss);
    }

    /// Whether the connection is to end.
    pub fn is_over(&self) -> bool {
        self.loss.is_some()
    }

    /// Forgets a waiting transaction; true if there was one.
    pub fn cancel(&mut self, id: &Json) -> bool {
        let before = self.blocked.len();
        self.blocked.retain(|blocked| blocked.id != *id);
        self.blocked.len() < before
    }
}
