//! One client as the databases see it: its monitors, its waiting transactions, and its output.
//!
//! A client that reads slowly does not get every update: while bytes wait for it, changes are merged row by row, and
//! it gets one update for all of them when it has read. So the memory that a client can occupy is bounded by the size
//! of the database.

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

/// A client that leaves more bytes than this unread is disconnected.
const MAX_BACKLOG_LEN: usize = 256 << 20;
/// Monitors of one session at most.
pub const MAX_MONITORS: usize = 1000;
/// Waiting transactions of one session at most.
pub const MAX_BLOCKED: usize = 1000;

/// Identifies a session; never reused.
pub type SessionId = u64;

/// A transaction that waits for its condition (`wait`).
pub struct Blocked {
    /// Id of the request.
    pub id: Json,
    /// The parameters of the request.
    pub params: Parameters,
    /// When it arrived.
    pub since: Instant,
    /// When it times out.
    pub deadline: Option<Instant>,
}

/// Changes of one database that were held back from a slow client.
struct Held {
    changes: BTreeMap<(usize, Uuid), Change>,
    last: Uuid,
}

/// The update for each kind of monitor about one transaction.
pub type Told = BTreeMap<u128, Option<String>>;

/// One client.
pub struct Session {
    /// Name for the log.
    name: String,
    /// The name in the client's certificate.
    pub peer_id: Option<String>,
    /// Options of its remote.
    pub options: RemoteOptions,
    pub monitors: Vec<Monitor>,
    pub blocked: Vec<Blocked>,
    held: BTreeMap<String, Held>,
    /// The client handles databases that are added, removed or converted.
    pub change_aware: bool,
    /// Messages to be sent, to be taken by the connection.
    pub output: Vec<String>,
    /// Bytes that wait to be written, including `output`.
    pub backlog: usize,
    /// Why the connection has to end.
    pub loss: Option<Loss>,
    /// Set by the socket thread when the client has disconnected, also while a job has the session.
    hung_up: Arc<AtomicBool>,
}

impl Session {
    /// A session of an established connection.
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

    /// Whether the client has disconnected, rather than only closed its sending side.
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

    /// Queues a message that is already text. A single message may have any length: it may be the whole database.
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

    /// Sends a transaction to monitors, now or when the client has read its output. `told` caches the updates for
    /// other sessions.
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

    /// Number of changes held back; changes of long values count more.
    pub fn held_changes(&self) -> usize {
        self.held.values().flat_map(|held| held.changes.values()).map(Change::weight).sum()
    }

    /// Whether held-back changes can be sent now.
    pub fn can_be_told(&self) -> bool {
        !self.held.is_empty() && !self.has_output()
    }

    /// Sends held-back changes of the databases that `schema_of` finds.
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

    /// Removes everything about a database; returns its monitors.
    pub fn leave(&mut self, database: &str) -> Vec<Json> {
        self.held.remove(database);
        let (gone, rest) =
            std::mem::take(&mut self.monitors).into_iter().partition(|m: &Monitor| m.database() == database);
        self.monitors = rest;
        gone.iter().map(|m| m.id().clone()).collect()
    }

    /// Ends the connection in this iteration.
    pub fn end(&mut self, loss: Loss) {
        self.loss.get_or_insert(loss);
    }

    /// Whether the connection has to end.
    pub fn is_over(&self) -> bool {
        self.loss.is_some()
    }

    /// Removes a waiting transaction; returns whether there was one.
    pub fn cancel(&mut self, id: &Json) -> bool {
        let before = self.blocked.len();
        self.blocked.retain(|blocked| blocked.id != *id);
        self.blocked.len() < before
    }
}
