//! The database side of a client: its monitors, blocked transactions and output.
//!
//! A client that reads slowly does not get every update. While it has unsent output, changes are held and merged, one
//! change per row; when it has read its output, it gets one update with all of them. So the size of the database limits
//! the memory that a client can use.

use crate::remote_options::RemoteOptions;
use ovsdb::monitor::ConditionCost;
use ovsdb::{Changes, Json, Message, Monitor, Parameters, RowChange, Schema, Uuid};
use runtime::{Module, RateLimit};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use transport::DisconnectReason;

static JSONRPC: Module = Module::new("jsonrpc");
static LIMIT: RateLimit = RateLimit::new(5, 5);

/// A client with more unsent output than this, in bytes, is disconnected.
const MAX_BACKLOG_LEN: usize = 256 << 20;
/// Maximum number of monitors of one session.
pub const MAX_MONITORS: usize = 1000;
/// Limits of the conditions of all monitors of one session. A clause `column == value` or `column includes value` takes
/// about 200 bytes. Each change of a row is compared with the values of all other clauses: 1,000 take about 20 µs.
const MAX_CONDITIONS: ConditionCost = ConditionCost { memory: 64 << 20, compared: 1_000 };

/// Identifies a session; never reused.
pub type SessionId = u64;
/// Blocked transactions, each as its session and its number in this session.
pub type Retries = Vec<(SessionId, u64)>;

/// A `transact` request, which is executed again after it was blocked.
pub struct TransactRequest {
    /// Increases with each transaction of the session.
    pub number: u64,
    /// The ID of the request.
    pub id: Json,
    /// The parameters of the request.
    pub params: Parameters,
    /// Estimated memory of `id` and `params`, in bytes.
    pub memory: usize,
    /// When the request was first executed. The timeout of a `wait` is counted from this time.
    pub since: Instant,
    /// The time that all retries have taken.
    pub spent: Duration,
    /// The time that the last execution has taken; `None`: the request has not been executed yet.
    pub last_took: Option<Duration>,
}

/// A transaction that is blocked by a `wait` operation until its condition holds.
pub struct Blocked {
    pub request: TransactRequest,
    /// When the `wait` times out; `None`: never.
    pub deadline: Option<Instant>,
    /// The tables whose changes may end the `wait`.
    pub tables: Vec<usize>,
    /// The version of the database when the transaction was executed last.
    pub version: u64,
}

/// Changes of one database that are not sent to a slow client yet, merged to one change per row.
struct HeldChanges {
    changes: BTreeMap<(usize, Uuid), RowChange>,
    /// ID of the last transaction.
    last: Uuid,
}

/// The encoded updates of one transaction, by [`Monitor::request_hash`].
pub type SharedUpdates = BTreeMap<u128, Option<String>>;

/// One client.
pub struct Session {
    /// The name in log messages.
    name: String,
    /// The common name in the client's certificate.
    pub peer_common_name: Option<String>,
    /// The options of the client's remote.
    pub options: RemoteOptions,
    pub monitors: Vec<Monitor>,
    /// The blocked transactions, by number.
    pub blocked: BTreeMap<u64, Blocked>,
    /// The number of the blocked transaction that was retried last.
    pub last_retried: u64,
    /// The number of transactions that the client has sent.
    pub transactions: u64,
    held: BTreeMap<String, HeldChanges>,
    /// Whether the client handles changes of the set of databases (`set_db_change_aware`).
    pub change_aware: bool,
    /// Messages for the connection to send.
    pub output: Vec<String>,
    /// Length of all unsent output, in bytes, including `output`.
    pub backlog: usize,
    /// Why the connection must end; `None`: it need not end.
    pub loss: Option<DisconnectReason>,
    /// Set by the socket thread when the client has disconnected, even while a job has the session.
    hung_up: Arc<AtomicBool>,
}

impl Session {
    /// A session for a new connection.
    pub fn new(name: &str, options: RemoteOptions, hung_up: Arc<AtomicBool>) -> Session {
        Session {
            name: name.to_owned(),
            peer_common_name: None,
            options,
            monitors: Vec::new(),
            blocked: BTreeMap::new(),
            last_retried: 0,
            transactions: 0,
            held: BTreeMap::new(),
            change_aware: false,
            output: Vec::new(),
            backlog: 0,
            loss: None,
            hung_up,
        }
    }

    /// Returns whether the client has disconnected; ending only its sending direction does not count.
    pub fn has_hung_up(&self) -> bool {
        self.hung_up.load(Ordering::Relaxed)
    }

    /// What the conditions of all monitors cost.
    pub fn condition_cost(&self) -> ConditionCost {
        let mut cost = ConditionCost::default();
        self.monitors.iter().for_each(|monitor| cost += monitor.condition_cost());
        cost
    }

    /// What the conditions of a further monitor may cost.
    pub fn conditions_left(&self) -> ConditionCost {
        let used = self.condition_cost();
        ConditionCost {
            memory: MAX_CONDITIONS.memory.saturating_sub(used.memory),
            compared: MAX_CONDITIONS.compared.saturating_sub(used.compared),
        }
    }

    fn has_output(&self) -> bool {
        self.backlog > 0
    }

    /// Queues a message.
    pub fn send(&mut self, message: &Message) {
        self.send_text(message.to_string());
    }

    /// Queues an encoded message. A single message may have any length, since it may contain the complete database.
    pub fn send_text(&mut self, message: String) {
        if self.backlog > MAX_BACKLOG_LEN {
            if self.loss.is_none() {
                let mebibytes = MAX_BACKLOG_LEN >> 20;
                let name = &self.name;
                runtime::warn_rl!(
                    JSONRPC,
                    LIMIT,
                    "{name}: disconnecting: more than {mebibytes} MiB of unsent output"
                );
            }
            return self.end(DisconnectReason::Dropped);
        }
        self.backlog += message.len();
        self.output.push(message);
    }

    /// Sends a transaction's changes to the client's monitors, or holds them if the client has unsent output. `shared`:
    /// updates that were already encoded for other sessions.
    pub fn send_changes(
        &mut self,
        schema: &Schema,
        changes: &Changes,
        transaction: Uuid,
        shared: &mut SharedUpdates,
    ) {
        let concerned = self.monitors.iter().any(|m| m.database() == schema.name);
        if !concerned {
            return;
        }
        if !self.has_output() && self.held.is_empty() {
            return self.queue_updates(schema, changes, transaction, shared);
        }
        let fresh = || HeldChanges { changes: BTreeMap::new(), last: transaction };
        let held = self.held.entry(schema.name.clone()).or_insert_with(fresh);
        held.last = transaction;
        for change in changes {
            held.changes
                .entry((change.table, change.uuid))
                .and_modify(|known| known.new = change.new.clone())
                .or_insert_with(|| change.clone());
        }
    }

    /// Queues the updates of all monitors of a database.
    fn queue_updates(
        &mut self,
        schema: &Schema,
        changes: &Changes,
        transaction: Uuid,
        shared: &mut SharedUpdates,
    ) {
        let mut updates = Vec::new();
        for monitor in self.monitors.iter().filter(|m| m.database() == schema.name) {
            let compose = || monitor.shared_part(schema, changes);
            let own;
            let part = match monitor.request_hash() {
                Some(hash) => shared.entry(hash).or_insert_with(compose),
                None => {
                    own = compose();
                    &own
                }
            };
            updates.extend(part.as_ref().map(|part| monitor.notification(part, transaction)));
        }
        updates.into_iter().for_each(|update| self.send_text(update));
    }

    /// The number of held changes; a change of long values counts as several (see [`RowChange::weight`]).
    pub fn held_change_count(&self) -> usize {
        self.held.values().flat_map(|held| held.changes.values()).map(RowChange::weight).sum()
    }

    /// Returns whether there are held changes that can be sent now.
    pub fn can_send_held(&self) -> bool {
        !self.held.is_empty() && !self.has_output()
    }

    /// Queues the updates for held changes of all databases for which `schema_of` returns a schema.
    pub fn send_held_changes<'s>(&mut self, schema_of: impl Fn(&str) -> Option<&'s Schema>) {
        for (database, HeldChanges { changes, last }) in std::mem::take(&mut self.held) {
            let Some(schema) = schema_of(&database) else {
                self.held.insert(database, HeldChanges { changes, last });
                continue;
            };
            let changes = changes.into_values().filter(|c| c.old.is_some() || c.new.is_some()).collect();
            self.queue_updates(schema, &changes, last, &mut SharedUpdates::new());
        }
    }

    /// Removes the monitors and held changes of a database; returns the IDs of the monitors.
    pub fn remove_monitors_of(&mut self, database: &str) -> Vec<Json> {
        self.held.remove(database);
        let (gone, rest) =
            std::mem::take(&mut self.monitors).into_iter().partition(|m: &Monitor| m.database() == database);
        self.monitors = rest;
        gone.iter().map(|m| m.id().clone()).collect()
    }

    /// Ends the connection in this turn.
    pub fn end(&mut self, loss: DisconnectReason) {
        self.loss.get_or_insert(loss);
    }

    /// Returns whether the connection must end.
    pub fn is_over(&self) -> bool {
        self.loss.is_some()
    }

    /// Estimated memory of the blocked transactions, in bytes.
    pub fn blocked_memory(&self) -> usize {
        self.blocked.values().map(|blocked| blocked.request.memory).sum()
    }

    /// Cancels a blocked transaction; returns whether there was one with this request ID.
    pub fn cancel(&mut self, id: &Json) -> bool {
        let before = self.blocked.len();
        self.blocked.retain(|_, blocked| blocked.request.id != *id);
        self.blocked.len() < before
    }
}
