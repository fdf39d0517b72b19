//! Decides whether a request may take so long that a background job must execute it (ADR 22).
//!
//! The estimate uses the request and the numbers of rows and long values, without reading rows. A request that needs no
//! job takes a few milliseconds at most.

use crate::conn::PendingRequest;
use crate::core::Core;
use crate::session::{Session, SessionId, TransactRequest};
use ovsdb::database::Table;
use ovsdb::monitor::MonitorMethod;
use ovsdb::schema::TableSchema;
use ovsdb::{ClientMessage, Database, Json, Message, Parameters};
use std::time::Duration;

/// Reading or writing this many rows takes about 5 ms.
const ROWS: usize = 5_000;
/// Executing this many operations takes about 5 ms.
const OPERATIONS: usize = 500;
/// Reading or copying long values with 300 × 64 elements takes about 4 ms.
const LONG_VALUES: usize = 300;
/// In a database with more rows than this, even a small change may take long: deleting a row may delete other rows, and
/// all rows of tables that may have weak references to it are searched.
const ROWS_OF_SMALL_CHANGES: usize = 50_000;
/// Comparing clauses of monitor conditions with rows this many times takes about 5 ms.
const COMPARISONS: usize = 100_000;
/// A blocked transaction whose last execution has taken longer than this is retried by a job.
const SLOW: Duration = Duration::from_millis(5);

impl Core {
    /// Returns whether a job must execute a request of a session.
    pub fn needs_job(&self, session: SessionId, request: &PendingRequest) -> bool {
        let ClientMessage::Message(message) = &request.message else { return true };
        let Message::Request { method, params, .. } = message else { return false };
        if request.is_long() {
            return true;
        }
        let database = params.get(0).and_then(Json::as_str).and_then(|name| self.databases.get(name));
        match method.as_str() {
            "transact" => database.is_some_and(|served| transaction_needs_job(&served.db, params)),
            // The parameters do not name the database: assume that it is the largest. Rows are compared with the old
            // conditions, too.
            "monitor_cond_change" => {
                let old = self.sessions.get(&session).map_or(0, |s| s.condition_cost().compared);
                self.databases.values().any(|served| monitor_needs_job(&served.db, params.get(2), old))
            }
            "convert" => true,
            method if MonitorMethod::from_name(method).is_some() => {
                database.is_some_and(|served| monitor_needs_job(&served.db, params.get(2), 0))
            }
            _ => false,
        }
    }

    /// Returns whether a job must send the held changes of a session.
    pub fn needs_job_to_send_changes(session: &Session) -> bool {
        let held = session.held_change_count();
        held > ROWS || held.saturating_mul(session.condition_cost().compared) > COMPARISONS
    }

    /// Returns whether a job must retry this blocked transaction. Called before each retry, because a time
    /// limit applies to all retries of a round together.
    pub fn needs_job_to_retry(&self, (session, number): (SessionId, u64)) -> bool {
        let blocked = self.sessions.get(&session).and_then(|s| s.blocked.get(&number));
        let Some(TransactRequest { params, last_took, .. }) = blocked.map(|b| &b.request) else {
            return false;
        };
        let served = params.database().and_then(|name| self.databases.get(name));
        last_took.is_some_and(|took| took > SLOW)
            || match params {
                Parameters::Tree(params) => {
                    served.is_some_and(|served| transaction_needs_job(&served.db, params))
                }
                Parameters::Text(_) => true,
            }
    }
}

fn rows(db: &Database) -> usize {
    db.tables().iter().map(|table| table.rows().size()).sum()
}

/// Returns whether reading the complete database takes long.
fn is_large(db: &Database) -> bool {
    let long_value_units: usize = db.tables().iter().map(Table::long_value_units).sum();
    rows(db) > ROWS || long_value_units > LONG_VALUES
}

/// Returns whether reading the database with these conditions takes long. `requests`: the objects with the conditions of
/// all tables. `old`: number of comparisons of each row with the old conditions.
fn monitor_needs_job(db: &Database, requests: Option<&Json>, old: usize) -> bool {
    let requests = requests.and_then(Json::as_object).into_iter().flat_map(|tables| tables.values());
    let requests = requests.flat_map(|r| r.as_array().map_or(std::slice::from_ref(r), Vec::as_slice));
    let clauses: usize = requests.filter_map(|r| r.get("where")?.as_array()).map(Vec::len).sum();
    is_large(db) || (clauses + old).saturating_mul(rows(db)) > COMPARISONS
}

/// Number of elements of long values that all operations together may read or copy, in units of 64.
fn long_value_units(db: &Database, operations: &[Json]) -> usize {
    let table = |operation: &Json| db.schema().table_index(operation.get("table")?.as_str()?);
    operations.iter().filter_map(table).map(|table| db.tables()[table].long_value_units()).sum()
}

fn transaction_needs_job(db: &Database, params: &Json) -> bool {
    let operations = params.as_array().map(Vec::as_slice).unwrap_or_default();
    let all = rows(db);
    let needs_job = |operation: &Json| {
        let text = |name: &str| operation.get(name).and_then(Json::as_str);
        let Some(op) = text("op") else { return false };
        let changes_rows = matches!(op, "update" | "mutate" | "delete");
        changes_rows && all > ROWS_OF_SMALL_CHANGES
            || all > ROWS && scans(db, text("table"), operation.get("where"))
    };
    operations.len() > OPERATIONS
        || long_value_units(db, operations) > LONG_VALUES
        || operations.iter().any(needs_job)
}

/// Returns whether an operation reads all rows of a large table.
fn scans(db: &Database, table: Option<&str>, condition: Option<&Json>) -> bool {
    let (Some(table), Some(condition)) = (table, condition) else { return false };
    let Some((schema, rows)) = db.schema().table(table).zip(db.rows(table)) else { return false };
    rows.size() > ROWS && !uses_index(schema, condition)
}

/// Returns whether rows that meet the condition are found without a scan: by their UUID, or by all columns of an index.
fn uses_index(schema: &TableSchema, condition: &Json) -> bool {
    let clauses = condition.as_array().map(Vec::as_slice).unwrap_or_default();
    let names = |name: &str| {
        let is = |at: usize, clause: &Json, text: &str| clause.get(at).and_then(Json::as_str) == Some(text);
        clauses.iter().any(|clause| is(0, clause, name) && is(1, clause, "=="))
    };
    let of_index = |columns: &Vec<usize>| columns.iter().all(|c| names(&schema.columns[*c].name));
    names("_uuid") || schema.indexes.iter().any(of_index)
}
