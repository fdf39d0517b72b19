//! A client's copy of a database, updated by the server (an "IDL").
//!
//! A replica does no I/O: the owner of the connection calls [`Replica::connected`] and [`Replica::disconnected`], passes
//! received messages to [`Replica::receive`], and sends the messages that [`Replica::poll_send`] returns. On each
//! connection the replica requests the schema, then monitors the configured tables and columns that the server has. With
//! `monitor_cond_since` and the id of the last transaction it resumes: it gets only the changes since then. Otherwise it
//! gets all rows and compares them with its own. With older servers it uses `monitor_cond` or `monitor`.
//!
//! Rows change only during `receive`. [`Replica::seqno`] counts changes; [`Replica::take_changes`] returns the rows that
//! changed since its last call.

use crate::database::{Row, RowChange};
use crate::json::parse_uuid;
use crate::monitor::MonitorMethod;
use crate::operation::Operation;
use crate::schema::{Schema, TableSchema};
use crate::{Error, Message};
use serde_json::Value as Json;
use serde_json::{Map, json};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use uuid::Uuid;

mod role;
mod row;
pub mod test_server;
mod update;

pub use row::{RowRef, TableRef};

/// What to replicate.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The database's name.
    pub database: String,
    /// The tables, each with its columns; `None`: all columns.
    pub tables: Vec<(String, Option<Vec<String>>)>,
    /// A lock to hold while connected.
    pub lock: Option<String>,
    /// In a cluster, accept only the leader, and only while it is connected to the cluster: a lock is valid on one
    /// server only.
    pub leader_only: bool,
}

impl Config {
    /// All columns of all tables of a database.
    pub fn whole(schema: &Schema) -> Config {
        let tables = schema.tables.iter().map(|t| (t.name.clone(), None)).collect();
        Config { database: schema.name.clone(), tables, ..Config::default() }
    }

    /// Some tables of the Open_vSwitch database, with all their columns.
    pub fn open_vswitch(tables: &[&str]) -> Config {
        let tables = tables.iter().map(|t| ((*t).to_owned(), None)).collect();
        Config { database: "Open_vSwitch".into(), tables, ..Config::default() }
    }
}

/// The server violated the protocol: the owner should reconnect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ProtocolError(pub String);

/// Identifies a transaction until its result is fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TransactionId(u64);

/// Result of a transaction.
#[derive(Clone, Debug, PartialEq)]
pub enum TransactionResult {
    /// Committed; one result per operation.
    Success(Vec<Json>),
    /// Refused by the server.
    Failed(Error),
    /// A `wait` (or [`Operation::verify`]) failed because the replica was out of date: the caller should try again.
    TryAgain,
    /// The lock is not held.
    NotLocked,
    /// The connection broke before the reply; the transaction may have been committed or not.
    Unknown,
}

impl TransactionResult {
    /// The UUID of the row that the insert with index `operation` created.
    pub fn inserted(&self, operation: usize) -> Option<Uuid> {
        match self {
            TransactionResult::Success(results) => {
                results.get(operation)?.get("uuid")?.get(1)?.as_str().and_then(parse_uuid)
            }
            _ => None,
        }
    }
}

/// A request that is not answered yet.
enum Pending {
    Role,
    Schema,
    Monitor(MonitorMethod),
    Lock,
    Transaction(TransactionId),
}

/// A client's copy of a database; see the module documentation.
pub struct Replica {
    config: Config,
    schema: Option<Arc<Schema>>,
    /// The rows of each table, in the order of the schema.
    tables: Vec<BTreeMap<Uuid, Arc<Row>>>,
    /// Messages to send.
    output: VecDeque<Message>,
    /// Requests that are not answered yet, by ID.
    pending: BTreeMap<u64, Pending>,
    next_id: u64,
    /// ID of the last transaction, from which to resume; `None` if the server does not send IDs.
    last_transaction: Option<Uuid>,
    connected: bool,
    /// The copy is complete on this connection.
    synced: bool,
    /// The copy has ever been complete.
    ever_synced: bool,
    has_lock: bool,
    seqno: u64,
    /// The rows that changed since the last call of `take_changes`, by table and UUID, with their content before.
    before: BTreeMap<(usize, Uuid), Option<Arc<Row>>>,
    results: VecDeque<(TransactionId, TransactionResult)>,
}

impl Replica {
    /// An empty copy, not connected.
    pub fn new(config: Config) -> Replica {
        Replica {
            config,
            schema: None,
            tables: Vec::new(),
            output: VecDeque::new(),
            pending: BTreeMap::new(),
            next_id: 1,
            last_transaction: None,
            connected: false,
            synced: false,
            ever_synced: false,
            has_lock: false,
            seqno: 0,
            before: BTreeMap::new(),
            results: VecDeque::new(),
        }
    }

    /// Called when a connection was established.
    pub fn connected(&mut self) {
        self.disconnected();
        self.connected = true;
        match self.config.leader_only {
            true => self.request_role(),
            false => self.request_schema(),
        }
    }

    /// Starts to monitor the role of this server in its cluster.
    fn request_role(&mut self) {
        self.send_request(Pending::Role, "monitor", role::request());
    }

    /// An error if this server cannot be used: the owner of the connection tries another one.
    fn check_role(&self, updates: Option<&Json>) -> Result<(), ProtocolError> {
        role::check(&self.config.database, updates).map_err(|text| ProtocolError(text.into()))
    }

    fn request_schema(&mut self) {
        let database = self.config.database.clone();
        self.send_request(Pending::Schema, "get_schema", json!([database]));
    }

    /// Called when the connection was lost. The rows are kept; the result of pending transactions is unknown.
    pub fn disconnected(&mut self) {
        self.output.clear();
        self.connected = false;
        self.synced = false;
        self.has_lock = false;
        for pending in std::mem::take(&mut self.pending).into_values() {
            if let Pending::Transaction(id) = pending {
                self.results.push_back((id, TransactionResult::Unknown));
            }
        }
    }

    /// The next message to send.
    pub fn poll_send(&mut self) -> Option<Message> {
        self.output.pop_front()
    }

    /// Processes a received message.
    pub fn receive(&mut self, message: Message) -> Result<(), ProtocolError> {
        match message {
            Message::Request { method, params, id } => {
                self.output.push_back(match method.as_str() {
                    "echo" => Message::Reply { result: params, id },
                    _ => Message::Error { error: "unknown method".into(), id },
                });
                Ok(())
            }
            Message::Notify { method, params } => self.handle_notification(&method, &params),
            Message::Reply { result, id } => self.handle_reply(&id, Ok(result)),
            Message::Error { error, id } => self.handle_reply(&id, Err(error)),
        }
    }

    /// Queues a request.
    fn send_request(&mut self, pending: Pending, method: &str, params: Json) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.pending.insert(id, pending);
        self.output.push_back(Message::request(method, params, id));
        id
    }

    fn handle_notification(&mut self, method: &str, params: &Json) -> Result<(), ProtocolError> {
        let locked = || {
            self.config.lock.is_some() && params.get(0).and_then(Json::as_str) == self.config.lock.as_deref()
        };
        match method {
            "update" if params.get(0).and_then(Json::as_str) == Some(role::ID) => {
                self.check_role(params.get(1))
            }
            "update" => self.update(params.get(1), MonitorMethod::Plain),
            "update2" => self.update(params.get(1), MonitorMethod::Conditional),
            "update3" => {
                self.last_transaction = params.get(1).and_then(Json::as_str).and_then(parse_uuid);
                self.update(params.get(2), MonitorMethod::Since)
            }
            "locked" | "stolen" if locked() => {
                self.has_lock = method == "locked";
                self.seqno += 1;
                Ok(())
            }
            // Ignore notifications of extensions that were not requested.
            _ => Ok(()),
        }
    }

    fn handle_reply(&mut self, id: &Json, answer: Result<Json, Json>) -> Result<(), ProtocolError> {
        let Some(pending) = id.as_u64().and_then(|id| self.pending.remove(&id)) else {
            return Ok(());
        };
        match (pending, answer) {
            (Pending::Role, answer) => {
                // A server without `_Server` is not part of a cluster.
                self.check_role(answer.ok().as_ref())?;
                self.request_schema();
                Ok(())
            }
            (Pending::Schema, Ok(json)) => self.receive_schema(&json),
            (Pending::Schema, Err(error)) => {
                Err(ProtocolError(format!("the server refuses its schema: {error}")))
            }
            (Pending::Monitor(method), Ok(result)) => self.receive_rows(method, &result),
            (Pending::Monitor(method), Err(error)) => self.use_older_monitor(method, &error),
            (Pending::Lock, answer) => {
                let locked = answer.ok().and_then(|result| result.get("locked").and_then(Json::as_bool));
                self.has_lock = locked.unwrap_or(false);
                self.seqno += 1;
                Ok(())
            }
            (Pending::Transaction(id), answer) => {
                self.results.push_back((id, transaction_result(answer)));
                Ok(())
            }
        }
    }

    fn receive_schema(&mut self, json: &Json) -> Result<(), ProtocolError> {
        let schema = Schema::from_json(json).map_err(|e| ProtocolError(format!("schema: {e}")))?;
        if self.schema.as_deref() != Some(&schema) {
            self.before.clear();
            self.seqno += 1;
            self.tables = vec![BTreeMap::new(); schema.tables.len()];
            self.last_transaction = None;
            self.schema = Some(Arc::new(schema));
        }
        if let Some(lock) = self.config.lock.clone() {
            self.send_request(Pending::Lock, "lock", json!([lock]));
        }
        self.request_monitor(MonitorMethod::Since);
        Ok(())
    }

    fn request_monitor(&mut self, method: MonitorMethod) {
        let mut params =
            vec![self.config.database.as_str().into(), json!("replica"), self.monitor_requests()];
        let name = match method {
            MonitorMethod::Plain => "monitor",
            MonitorMethod::Conditional => "monitor_cond",
            MonitorMethod::Since => {
                params.push(self.last_transaction.unwrap_or_default().to_string().into());
                "monitor_cond_since"
            }
        };
        self.send_request(Pending::Monitor(method), name, Json::Array(params));
    }

    /// The configured tables and columns that the server's schema has.
    fn monitor_requests(&self) -> Json {
        let mut requests = Map::new();
        for (name, columns) in &self.config.tables {
            let Some(table) = self.schema.as_ref().and_then(|s| s.table(name)) else { continue };
            let wanted = |c: &str| columns.as_ref().is_none_or(|wanted| wanted.iter().any(|w| w == c));
            let columns =
                table.columns.iter().map(|c| c.name.as_str()).filter(|c| !c.starts_with('_') && wanted(c));
            requests.insert(name.clone(), json!([{"columns": columns.collect::<Vec<_>>()}]));
        }
        Json::Object(requests)
    }

    /// Tries the next older monitor request if the server does not support this one.
    fn use_older_monitor(&mut self, method: MonitorMethod, error: &Json) -> Result<(), ProtocolError> {
        if error.as_str() != Some("unknown method") {
            return Err(ProtocolError(format!("the server refuses to be monitored: {error}")));
        }
        self.last_transaction = None;
        match method {
            MonitorMethod::Since => self.request_monitor(MonitorMethod::Conditional),
            MonitorMethod::Conditional => self.request_monitor(MonitorMethod::Plain),
            MonitorMethod::Plain => return Err(ProtocolError("the server knows no monitors".into())),
        }
        Ok(())
    }

    fn receive_rows(&mut self, method: MonitorMethod, result: &Json) -> Result<(), ProtocolError> {
        let (resumed, updates) = match method {
            MonitorMethod::Since => {
                self.last_transaction = result.get(1).and_then(Json::as_str).and_then(parse_uuid);
                (result.get(0).and_then(Json::as_bool).unwrap_or(false), result.get(2))
            }
            _ => (false, Some(result)),
        };
        if resumed {
            self.update(updates, method)?;
        } else {
            self.replace(updates, method)?;
        }
        self.synced = true;
        self.ever_synced = true;
        self.seqno += 1;
        Ok(())
    }

    /// Queues a transaction; `None` without a connection. If a lock is configured, the transaction asserts the lock.
    pub fn transact(&mut self, operations: &[Operation]) -> Option<TransactionId> {
        if !self.connected {
            return None;
        }
        let mut params = vec![Json::from(self.config.database.as_str())];
        params.extend(operations.iter().map(Operation::to_json));
        if let Some(lock) = &self.config.lock {
            params.push(Operation::assert(lock).to_json());
        }
        let id = TransactionId(self.next_id);
        self.send_request(Pending::Transaction(id), "transact", Json::Array(params));
        Some(id)
    }

    /// Returns the next result of a finished transaction; each result is returned once.
    pub fn poll_result(&mut self) -> Option<(TransactionId, TransactionResult)> {
        self.results.pop_front()
    }

    /// Queues an echo request to check the connection; the reply is ignored.
    pub fn probe(&mut self) {
        if self.connected {
            self.output.push_back(Message::request("echo", json!([]), "echo"));
        }
    }

    /// Whether the copy is complete on this connection.
    pub fn is_synced(&self) -> bool {
        self.synced
    }

    /// Whether the copy has ever been complete.
    pub fn has_ever_synced(&self) -> bool {
        self.ever_synced
    }

    /// Whether the configured lock is held.
    pub fn has_lock(&self) -> bool {
        self.has_lock
    }

    /// Increases with each change of rows, of the lock or of the replica's state.
    pub fn seqno(&self) -> u64 {
        self.seqno
    }

    /// The rows that changed since the last call, by table and UUID: each row once, with its content at the last call and
    /// now. If [`Replica::schema`] changes, rows of the old schema are not returned: the caller must read all rows again.
    pub fn take_changes(&mut self) -> Vec<RowChange> {
        let change = |((table, uuid), old): ((usize, Uuid), Option<Arc<Row>>)| {
            let new = self.tables.get(table).and_then(|rows| rows.get(&uuid)).cloned();
            (old != new).then_some(RowChange { table, uuid, old, new })
        };
        std::mem::take(&mut self.before).into_iter().filter_map(change).collect()
    }

    /// The server's schema.
    pub fn schema(&self) -> Option<&Arc<Schema>> {
        self.schema.as_ref()
    }

    /// A table; `None` if the server does not have it.
    pub fn table(&self, name: &str) -> Option<TableRef<'_>> {
        let schema = self.schema.as_ref()?;
        let index = schema.table_index(name)?;
        Some(TableRef { schema: schema.tables.get(index)?, rows: self.tables.get(index)? })
    }

    /// Number of rows times columns, over all tables: Open vSwitch reports the size of its replica in this unit.
    pub fn cells(&self) -> usize {
        let tables = self.schema.iter().flat_map(|schema| &schema.tables);
        let columns = |of: &TableSchema| of.columns.iter().filter(|c| !c.name.starts_with('_')).count();
        tables.zip(&self.tables).map(|(schema, rows)| columns(schema) * rows.len()).sum()
    }

    /// The rows of a table; empty if the server does not have the table.
    pub fn rows(&self, table: &str) -> impl Iterator<Item = RowRef<'_>> {
        self.table(table).into_iter().flat_map(|table| table.rows())
    }

    /// One row.
    pub fn row(&self, table: &str, uuid: Uuid) -> Option<RowRef<'_>> {
        self.table(table)?.row(uuid)
    }

    /// Typed access to a row of a [`RowChange`].
    pub fn view<'a>(&'a self, table: usize, row: &'a Row) -> Option<RowRef<'a>> {
        let schema = self.schema.as_ref()?.tables.get(table)?;
        Some(RowRef { schema, row })
    }
}

fn transaction_result(answer: Result<Json, Json>) -> TransactionResult {
    let results = match answer {
        Ok(Json::Array(results)) => results,
        Ok(other) => return TransactionResult::Failed(Error::syntax(&other, "array expected")),
        Err(error) => {
            let fallback = || Error::plain(error.to_string());
            return TransactionResult::Failed(Error::from_json(&error).unwrap_or_else(fallback));
        }
    };
    match results.iter().find_map(Error::from_json) {
        None => TransactionResult::Success(results),
        Some(error) => match &*error.tag {
            "timed out" => TransactionResult::TryAgain,
            "not owner" => TransactionResult::NotLocked,
            _ => TransactionResult::Failed(error),
        },
    }
}

#[cfg(test)]
mod tests;
