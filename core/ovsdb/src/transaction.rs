//! Executes `transact` requests (RFC 7047 sections 4.1.3 and 5.2).
//!
//! Operations run one after another on a draft of the database. Nothing is visible until the caller applies
//! the [`Commit`], after storing it. If the condition of a `wait` does not hold, the result is
//! [`Outcome::Blocked`]: the caller runs the request again when the database has changed or the timeout
//! expires.

use crate::condition::Condition;
use crate::database::{Commit, Database, Row};
use crate::integrity::{Draft, RowKey};
use crate::json::{as_integer, parse_uuid};
use crate::members::{Kinds, Members};
use crate::mutation::Mutation;
use crate::operation::Operation;
use crate::rbac::{Rule, refusal};
use crate::schema::{TableSchema, VERSION_COLUMN};
use crate::value::{Datum, Symbols};
use crate::{Error, Parameters};
use serde_json::Map;
use serde_json::Value as Json;
use std::collections::BTreeSet;
use std::sync::Arc;
use uuid::Uuid;

mod context;

pub use context::Context;

/// Result of an execution.
pub enum Outcome {
    /// Ready to commit.
    Ready(Box<Prepared>),
    /// Failed; these results are the reply.
    Failed(Vec<Json>),
    /// The condition of a `wait` does not hold yet.
    Blocked {
        /// The `wait` times out this many milliseconds after the request was received; `None`: never.
        timeout_ms: Option<i64>,
        /// The tables of the executed `wait` operations, including this one. The transaction need not be
        /// retried before one of them changes: what earlier operations do to a table depends only on the rows
        /// of that table.
        tables: Vec<usize>,
        /// The results of the operations before this `wait`.
        results: Vec<Json>,
    },
}

/// A transaction ready to commit.
pub struct Prepared {
    /// The results to send after the commit.
    pub results: Vec<Json>,
    /// The changes.
    pub commit: Commit,
    /// The comments, one per line.
    pub comment: String,
    /// Whether the reply must wait until the commit is synced to disk.
    pub durable: bool,
}

/// A transaction that is being executed.
struct Execution<'a> {
    /// The database before the transaction.
    db: &'a Database,
    draft: Draft<'a>,
    symbols: Symbols<'a>,
    context: &'a Context<'a>,
    comments: Vec<String>,
    durable: bool,
    timeout_ms: Option<i64>,
    /// The tables of the executed `wait` operations.
    waited_tables: BTreeSet<usize>,
    /// Estimated memory of the complete database as results, in bytes; `None`: not needed yet.
    database_memory: Option<usize>,
    /// Whether reserved databases (whose names begin with `_`) may be changed.
    trusted: bool,
}

/// Reason why an operation ends the transaction.
enum Halt {
    Error(Error),
    Blocked,
}

impl From<Error> for Halt {
    fn from(error: Error) -> Self {
        Halt::Error(error)
    }
}

/// Executes a `transact` request with its complete `params`.
pub fn execute(
    db: &Database,
    params: &Parameters,
    context: &Context,
    new_uuid: &mut dyn FnMut() -> Uuid,
) -> Outcome {
    if params.database() != Some(&db.schema().name) {
        let whole = match params {
            Parameters::Tree(params) => params,
            Parameters::Text(_) => &Json::Null,
        };
        let error = match whole {
            Json::Array(_) => Error::syntax(whole, "database name expected as first parameter"),
            _ => Error::syntax(whole, "array expected"),
        };
        return Outcome::Failed(vec![error.to_json()]);
    }
    let mut run = Execution::new(db, context, new_uuid);
    let mut results = Vec::with_capacity(params.len());
    for at in 0..params.len() {
        let name = || format!("ovsdb operation {} of {}", at + 1, params.len());
        let operation = context.check_abandoned().and_then(|()| params.operation(at)).map_err(Halt::from);
        match operation.and_then(|operation| run.operation(Members::new(&operation, name()))) {
            Ok(result) => results.push(Json::Object(result)),
            Err(Halt::Blocked) => {
                let tables = run.waited_tables.into_iter().collect();
                return Outcome::Blocked { timeout_ms: run.timeout_ms, tables, results };
            }
            Err(Halt::Error(error)) => {
                results.push(error.to_json());
                results.resize(params.len(), Json::Null);
                return Outcome::Failed(results);
            }
        }
    }
    let Execution { draft, mut symbols, comments, durable, .. } = run;
    let finished = draft.finish(&mut || symbols.new_uuid());
    // The final checks may take long: check again whether the client is still connected.
    match finished.and_then(|commit| context.check_abandoned().map(|()| commit)) {
        Ok(commit) => {
            Outcome::Ready(Box::new(Prepared { results, commit, comment: comments.join("\n"), durable }))
        }
        Err(error) => {
            results.push(error.to_json());
            Outcome::Failed(results)
        }
    }
}

/// Executes operations of the server itself, which may also change a reserved database.
pub fn apply_own(
    db: &Database,
    operations: &[Operation],
    new_uuid: &mut dyn FnMut() -> Uuid,
) -> Result<Commit, Error> {
    let context = Context::default();
    let mut run = Execution::new(db, &context, new_uuid);
    run.trusted = true;
    for operation in operations {
        match run.operation(Members::new(&operation.to_json(), "operation")) {
            Ok(_) => {}
            Err(Halt::Error(error)) => return Err(error),
            Err(Halt::Blocked) => return Err(Error::new("timed out", "\"where\" clause test failed")),
        }
    }
    let Execution { draft, mut symbols, .. } = run;
    draft.finish(&mut || symbols.new_uuid())
}

/// The members of the current operation.
type OperationMembers<'m, 'j> = &'m mut Members<'j>;
type OperationResult = Result<Map<String, Json>, Halt>;

impl<'a> Execution<'a> {
    fn new(db: &'a Database, context: &'a Context<'a>, new_uuid: &'a mut dyn FnMut() -> Uuid) -> Self {
        let draft = Draft::new(db.schema(), db.tables());
        let symbols = Symbols::new(new_uuid);
        Execution {
            db,
            draft,
            symbols,
            context,
            comments: Vec::new(),
            durable: false,
            timeout_ms: None,
            waited_tables: BTreeSet::new(),
            database_memory: None,
            trusted: false,
        }
    }

    fn operation(&mut self, mut form: Members) -> OperationResult {
        let members = &mut form;
        let Some(op) = members.required("op", Kinds::ID).and_then(Json::as_str) else {
            members.check()?;
            return Ok(Map::new());
        };
        let result = match op {
            "insert" => self.insert(members),
            "select" => self.select(members),
            "update" => self.update(members),
            "mutate" => self.mutate(members),
            "delete" => self.delete(members),
            "wait" => self.wait(members),
            "commit" => {
                let durable = members.required("durable", Kinds::BOOLEAN).and_then(Json::as_bool);
                self.durable |= durable.unwrap_or(false);
                members.check().map(|()| Map::new()).map_err(Halt::from)
            }
            "abort" => Err(Error::new("aborted", "aborted by request").into()),
            "comment" => {
                let comment = members.required("comment", Kinds::STRING).and_then(Json::as_str);
                self.comments.extend(comment.map(str::to_owned));
                Ok(Map::new())
            }
            "assert" => self.assert(members),
            other => {
                members.raise(&format!("No operation \"{other}\""));
                Ok(Map::new())
            }
        };
        // Errors in the form of the request take precedence.
        form.finish()?;
        let result = result?;
        let reads = matches!(op, "select" | "wait" | "abort" | "comment" | "commit" | "assert");
        if !reads && self.context.read_only {
            let text = format!("{op} operation not allowed when database server is in read only mode");
            return Err(Error::new("not allowed", text).into());
        }
        if !reads && !self.trusted && self.draft.schema.name.starts_with('_') {
            let name = &self.draft.schema.name;
            let text = format!("{op} operation not allowed on table in reserved database {name}");
            return Err(Error::new("not allowed", text).into());
        }
        Ok(result)
    }

    fn table(&self, members: OperationMembers) -> Option<(usize, &'a TableSchema)> {
        let name = members.required("table", Kinds::ID)?.as_str()?;
        let schema = self.draft.schema;
        let index = schema.table_index(name);
        if index.is_none() {
            members.raise(&format!("No table named {name}."));
        }
        index.map(|index| (index, &schema.tables[index]))
    }

    /// The row that `json` describes, and the columns that it sets.
    fn parse_row(
        &mut self,
        table: &TableSchema,
        json: &Json,
        uuid: Uuid,
    ) -> Result<(Row, Vec<usize>), Error> {
        let object = json.as_object().ok_or_else(|| Error::syntax(json, "row must be JSON object"))?;
        let mut row = Row::new(table, uuid);
        let mut columns = Vec::with_capacity(object.len());
        for (name, value) in object {
            let Some(column) = table.column_index(name) else {
                let text = format!("No column {name} in table {}.", table.name);
                return Err(Error::quoting("unknown column", json, text));
            };
            row.set(column, Datum::from_json(value, &table.columns[column].ty, Some(&mut self.symbols))?);
            columns.push(column);
        }
        Ok((row, columns))
    }

    /// The client's permissions for a table.
    fn rule(&self, table: &TableSchema) -> Rule<'a> {
        Rule::of(&self.draft, table, self.context.client)
    }

    fn condition(&mut self, table: &TableSchema, json: Option<&Json>) -> Result<Condition, Error> {
        Condition::from_json(table, json.unwrap_or(&Json::Null), Some(&mut self.symbols))
    }

    /// The rows of a table that meet a condition.
    fn matching(&self, table: usize, condition: &Condition) -> Vec<Arc<Row>> {
        let rows = &self.draft.tables[table].rows;
        let candidates = match condition.only_uuid() {
            Some(uuid) => Some(BTreeSet::from([uuid])),
            None => self.candidates(table, condition),
        };
        match candidates {
            Some(uuids) => {
                let rows = uuids.iter().filter_map(|uuid| rows.get(uuid));
                rows.filter(|row| condition.all(row)).cloned().collect()
            }
            None => rows.values().filter(|row| condition.all(row)).cloned().collect(),
        }
    }

    /// The rows that can match according to an index; `None`: no index applies. Indexes have the state before the
    /// transaction, so all rows that the transaction has touched are candidates, too.
    fn candidates(&self, table: usize, condition: &Condition) -> Option<BTreeSet<Uuid>> {
        let schema = &self.draft.schema.tables[table];
        let mut keys = schema.indexes.iter().zip(&self.draft.tables[table].indexes);
        let found = keys.find_map(|(columns, index)| {
            let key: Option<Vec<_>> =
                columns.iter().map(|&c| condition.required(c).cloned().map(Arc::new)).collect();
            Some(index.get(&key?).copied())
        })?;
        let touched = self.draft.touched.range((table, Uuid::nil())..=(table, Uuid::max()));
        Some(found.into_iter().chain(touched.map(|((_, uuid), _)| *uuid)).collect())
    }

    fn insert(&mut self, members: OperationMembers) -> OperationResult {
        let table = self.table(members);
        let uuid = members.optional("uuid", Kinds::STRING);
        let name = members.optional("uuid-name", Kinds::ID);
        let row = members.required("row", Kinds::OBJECT);
        members.check()?;
        let (Some((table, schema)), Some(row)) = (table, row) else { return Ok(Map::new()) };
        let chosen = uuid.map(|json| self.chosen_uuid(table, json)).transpose()?;
        let uuid = match name.and_then(Json::as_str) {
            Some(text) => {
                let symbol = self.symbols.get_or_create(text);
                if symbol.created {
                    let details = "This \"uuid-name\" appeared on an earlier \"insert\" operation.";
                    return Err(
                        Error::quoting("duplicate uuid-name", name.unwrap_or(&Json::Null), details).into()
                    );
                }
                symbol.created = true;
                symbol.uuid = chosen.unwrap_or(symbol.uuid);
                symbol.uuid
            }
            None => chosen.unwrap_or_else(|| self.symbols.new_uuid()),
        };
        let (mut row, given) = self.parse_row(schema, row, uuid)?;
        for (column_index, column) in schema.columns.iter().enumerate() {
            // The given values have been checked before; a default value may violate a constraint, too.
            if !given.contains(&column_index) {
                row.field(column_index).keys().try_for_each(|atom| column.ty.key.check(atom))?;
            }
        }
        if !self.rule(schema).may_insert_or_delete(schema, &row) {
            return Err(refusal(self.context.client, "row insertion into", schema).into());
        }
        row.set(0, Datum::scalar(uuid));
        row.set_version(self.symbols.new_uuid());
        self.draft.put((table, uuid), Some(Arc::new(row)));
        Ok(object_of_one("uuid", Datum::scalar(uuid).to_json()))
    }

    /// The UUID that the client chose for a new row; an error if it is in use.
    fn chosen_uuid(&self, table: usize, json: &Json) -> Result<Uuid, Error> {
        let uuid = json.as_str().and_then(parse_uuid).ok_or_else(|| Error::syntax(json, "bad uuid"))?;
        let id: RowKey = (table, uuid);
        if self.draft.get(id).is_some() || self.draft.touched.contains_key(&id) {
            let text = "This UUID would duplicate a UUID already present within the table or deleted within the \
                        same transaction.";
            return Err(Error::quoting("duplicate uuid", json, text));
        }
        Ok(uuid)
    }

    fn select(&mut self, members: OperationMembers) -> OperationResult {
        let table = self.table(members);
        let condition = members.required("where", Kinds::ARRAY);
        let columns = members.optional("columns", Kinds::ARRAY);
        let sort = members.optional("sort", Kinds::ARRAY);
        members.check()?;
        let Some((table, schema)) = table else { return Ok(Map::new()) };
        let condition = self.condition(schema, condition)?;
        let columns = schema.column_set(columns)?;
        let sort = sort.map(|sort| schema.column_set(Some(sort))).transpose()?;
        let mut rows = self.matching(table, &condition);
        if !columns.contains(&0) {
            // Rows with equal values in the selected columns are reported once.
            let mut seen = BTreeSet::new();
            rows.retain(|row| seen.insert(project(row, &columns)));
        }
        if let Some(sort) = sort {
            rows.sort_by_cached_key(|row| project(row, &sort));
        }
        let row_json = |row: Arc<Row>| {
            self.count_selected(row.json_memory(schema, columns.iter().copied()))?;
            let member = |&c: &usize| (schema.columns[c].name.clone(), row.field(c).to_json());
            Ok(Json::Object(columns.iter().map(member).collect()))
        };
        let selected = rows.into_iter().map(row_json).collect::<Result<Vec<_>, Error>>()?;
        Ok(object_of_one("rows", selected.into()))
    }

    /// Counts the memory of a selected row before it is allocated; an error if it exceeds the limit.
    fn count_selected(&mut self, row_memory: usize) -> Result<(), Error> {
        let (selected, max) = (self.context.selected.get() + row_memory, self.context.max_selected_memory);
        self.context.selected.set(selected);
        if selected <= max {
            return Ok(());
        }
        // This reads all rows, so it is done at most once per transaction. Changes of the transaction do not count: an
        // `update` can store one long value in many rows without copying it.
        let max = max.saturating_add(*self.database_memory.get_or_insert_with(|| self.db.json_memory()));
        match selected > max {
            true => {
                Err(Error::new("resources exhausted", format!("selected rows exceed {max} bytes of memory")))
            }
            false => Ok(()),
        }
    }

    fn update(&mut self, members: OperationMembers) -> OperationResult {
        let table = self.table(members);
        let condition = members.required("where", Kinds::ARRAY);
        let row_json = members.required("row", Kinds::OBJECT);
        members.check()?;
        let (Some((table, schema)), Some(row_json)) = (table, row_json) else { return Ok(Map::new()) };
        let (values, columns) = self.parse_row(schema, row_json, Uuid::nil())?;
        if let Some(&fixed) = columns.iter().find(|&&c| !schema.columns[c].mutable) {
            let text = format!(
                "Cannot update immutable column {} in table {}.",
                schema.columns[fixed].name, schema.name
            );
            return Err(Error::quoting("constraint violation", members.whole(), text).into());
        }
        let condition = self.condition(schema, condition)?;
        let rows = self.matching(table, &condition);
        let rule = self.rule(schema);
        if !rows.iter().all(|row| rule.may_modify(schema, row, columns.iter().copied())) {
            return Err(refusal(self.context.client, "modification of", schema).into());
        }
        let value_memory = columns.iter().map(|&c| values.field(c).json_heap_memory()).sum();
        self.context.count_copies(value_memory, rows.len())?;
        let uuids = into_uuids(rows);
        for uuid in &uuids {
            self.draft.change((table, *uuid), |row| {
                columns.iter().for_each(|&c| row.set(c, values.shared(c).clone()));
                Ok(())
            })?;
        }
        Ok(object_of_one("count", uuids.len().into()))
    }

    fn mutate(&mut self, members: OperationMembers) -> OperationResult {
        let table = self.table(members);
        let condition = members.required("where", Kinds::ARRAY);
        let mutations = members.required("mutations", Kinds::ARRAY).and_then(Json::as_array);
        members.check()?;
        let (Some((table, schema)), Some(mutations)) = (table, mutations) else { return Ok(Map::new()) };
        let parse = |json| Mutation::from_json(schema, json, &mut self.symbols);
        let mutations = mutations.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
        let condition = self.condition(schema, condition)?;
        let rows = self.matching(table, &condition);
        let rule = self.rule(schema);
        if !rows.iter().all(|row| rule.may_modify(schema, row, mutations.iter().map(Mutation::column))) {
            return Err(refusal(self.context.client, "mutate operation on", schema).into());
        }
        let context = self.context;
        context.count_copies(mutations.iter().map(Mutation::argument_memory).sum(), rows.len())?;
        let uuids = into_uuids(rows);
        for uuid in uuids.iter().filter(|_| !mutations.is_empty()) {
            self.draft.change((table, *uuid), |row| {
                mutations.iter().try_for_each(|mutation| {
                    context.check_abandoned()?;
                    mutation.apply(schema, row)
                })
            })?;
        }
        Ok(object_of_one("count", uuids.len().into()))
    }

    fn delete(&mut self, members: OperationMembers) -> OperationResult {
        let condition = members.required("where", Kinds::ARRAY);
        let table = self.table(members);
        members.check()?;
        let Some((table, schema)) = table else { return Ok(Map::new()) };
        let condition = self.condition(schema, condition)?;
        let rows = self.matching(table, &condition);
        let rule = self.rule(schema);
        if !rows.iter().all(|row| rule.may_insert_or_delete(schema, row)) {
            return Err(refusal(self.context.client, "row deletion from", schema).into());
        }
        rows.iter().for_each(|row| self.draft.put((table, row.uuid()), None));
        Ok(object_of_one("count", rows.len().into()))
    }

    fn wait(&mut self, members: OperationMembers) -> OperationResult {
        let timeout = members.optional("timeout", Kinds::INTEGER);
        let condition = members.required("where", Kinds::ARRAY);
        let columns = members.optional("columns", Kinds::ARRAY);
        let until = members.required("until", Kinds::STRING);
        let rows = members.required("rows", Kinds::ARRAY).and_then(Json::as_array);
        let table = self.table(members);
        members.check()?;
        let (Some((table, schema)), Some(until), Some(rows)) = (table, until, rows) else {
            return Ok(Map::new());
        };
        self.waited_tables.insert(table);
        let condition = self.condition(schema, condition)?;
        let columns: Vec<usize> = schema.column_set(columns)?;
        let timeout = timeout.map(|json| (json, as_integer(json).unwrap_or(0)));
        if let Some((json, _)) = timeout.filter(|(_, ms)| *ms < 0) {
            return Err(Error::syntax(json, "timeout must be nonnegative").into());
        }
        let want_equal = match until.as_str() {
            Some("==") => true,
            Some("!=") => false,
            _ => return Err(Error::syntax(until, "\"until\" must be \"==\" or \"!=\"").into()),
        };
        let mut expected = BTreeSet::new();
        for json in rows {
            expected.insert(project(&self.parse_row(schema, json, Uuid::nil())?.0, &columns));
        }
        let actual: BTreeSet<_> =
            self.matching(table, &condition).iter().map(|row| project(row, &columns)).collect();
        if (expected == actual) == want_equal {
            return Ok(Map::new());
        }
        let elapsed = self.context.elapsed_ms;
        match timeout {
            Some((_, limit)) if elapsed >= limit => {
                let text = match elapsed {
                    0 => "\"where\" clause test failed".to_owned(),
                    _ => format!("\"wait\" timed out after {elapsed} ms"),
                };
                Err(Error::new("timed out", text).into())
            }
            _ => {
                self.timeout_ms = timeout.map(|(_, limit)| limit);
                Err(Halt::Blocked)
            }
        }
    }

    fn assert(&mut self, members: OperationMembers) -> OperationResult {
        let Some(lock) = members.required("lock", Kinds::ID).and_then(Json::as_str) else {
            return Ok(Map::new());
        };
        if (self.context.owns_lock)(lock) {
            return Ok(Map::new());
        }
        Err(Error::new("not owner", format!("Asserted lock {lock} not held.")).into())
    }
}

/// The values of some columns, for comparisons. `_version` is left out, because it is random.
fn project(row: &Row, columns: &[usize]) -> Vec<Arc<Datum>> {
    columns.iter().filter(|&&c| c != VERSION_COLUMN).map(|&c| row.shared(c).clone()).collect()
}

/// The UUIDs of rows. Drops the references to the rows, so that they can be changed in place.
fn into_uuids(rows: Vec<Arc<Row>>) -> Vec<Uuid> {
    rows.iter().map(|row| row.uuid()).collect()
}

/// An object with one member.
fn object_of_one(name: &str, value: Json) -> Map<String, Json> {
    let mut object = Map::new();
    object.insert(name.to_owned(), value);
    object
}

#[cfg(test)]
mod tests;
