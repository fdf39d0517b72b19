//! Monitors: notify a client of changes (RFC 7047 sections 4.1.5 to 4.1.7, and the extensions `monitor_cond`,
//! `monitor_cond_since` and `monitor_cond_change`).
//!
//! For each commit a monitor returns one notification or none. It stores no rows: a change contains the old and the new
//! row.

use crate::Error;
use crate::database::{Changes, Database, Row, RowChange};
use crate::json::parse_uuid;
use crate::members::{Kinds, Members};
use crate::schema::{Schema, TableSchema, UUID_COLUMN};
use serde_json::Value as Json;
use sha1::{Digest, Sha1};
use std::collections::BTreeMap;
use std::sync::Arc;
use uuid::Uuid;

mod compose;
mod filter;
mod method;
mod watch;

use compose::Updates;
use filter::Filter;
pub use filter::{ConditionCost, MonitorLimits};
pub use method::MonitorMethod;
use watch::{Select, Watch};

/// One monitor of one session.
pub struct Monitor {
    id: Json,
    database: String,
    method: MonitorMethod,
    tables: BTreeMap<usize, Watch>,
    /// Hash of the request. Monitors with the same request get the same updates. `None` after a change of conditions.
    request_hash: Option<u128>,
}

impl Monitor {
    /// Creates a monitor from the request's `params`, within limits; also returns the text of the result.
    pub fn create(
        db: &Database,
        method: MonitorMethod,
        params: &Json,
        limits: &MonitorLimits,
    ) -> Result<(Monitor, String), Error> {
        let items = params.as_array().map(Vec::as_slice).unwrap_or_default();
        let fits = match method {
            MonitorMethod::Plain => items.len() >= 3,
            MonitorMethod::Conditional => items.len() == 3,
            MonitorMethod::Since => items.len() == 4,
        };
        let ([_, id, requests, ..], true) = (items, fits) else {
            return Err(Error::syntax(params, "invalid parameters"));
        };
        let requests =
            requests.as_object().ok_or_else(|| Error::syntax(requests, "monitor-requests must be object"))?;
        let database = db.schema().name.clone();
        let request_hash = Some(fingerprint(&format!("{database} {method:?} {requests:?}")));
        let mut monitor = Monitor { id: id.clone(), database, method, tables: BTreeMap::new(), request_hash };
        for (name, request) in requests {
            let table = known_table(db.schema(), name)?;
            for request in one_or_many(request) {
                monitor.add(table, &db.schema().tables[table], request)?;
                limits.check(monitor.condition_cost())?;
            }
        }
        let since = match items.get(3) {
            Some(last_id) if method == MonitorMethod::Since => changes_after(db, last_id)?,
            _ => None,
        };
        let found = since.is_some();
        let updates = match since {
            Some(changes) => monitor.updates(db.schema(), &changes),
            None => monitor.initial_updates(db, limits)?,
        };
        let updates = updates.unwrap_or_else(|| "{}".to_owned());
        let result = match method {
            MonitorMethod::Since => format!("[{found},\"{}\",{updates}]", db.last_transaction()),
            _ => updates,
        };
        Ok((monitor, result))
    }

    /// Adds a `<monitor-request>` for a table.
    fn add(&mut self, table: usize, schema: &TableSchema, request: &Json) -> Result<(), Error> {
        let mut members = Members::new(request, format!("table {}", schema.name));
        let condition = match self.method {
            MonitorMethod::Plain => None,
            _ => members.optional("where", Kinds::ARRAY),
        };
        let columns = members.optional("columns", Kinds::ARRAY);
        let select = members.optional("select", Kinds::OBJECT);
        members.finish()?;
        let select = Select::from_json(select, &schema.name)?;
        let filter = Filter::from_json(schema, condition)?;
        let watch = self.tables.entry(table).or_insert_with(|| Watch {
            select: Select(0),
            columns: Vec::new(),
            filter: Filter::default(),
        });
        watch.select = Select(watch.select.0 | select.0);
        watch.filter = filter;
        match columns {
            None => {
                for column in (0..schema.columns.len()).filter(|&c| c != UUID_COLUMN) {
                    watch.watch_column(column, select, schema, request)?;
                }
            }
            Some(json) => {
                for item in json.as_array().into_iter().flatten() {
                    let name =
                        item.as_str().ok_or_else(|| Error::syntax(json, "array of column names expected"))?;
                    let column = schema
                        .column_index(name)
                        .ok_or_else(|| Error::syntax(json, format!("{name} is not a valid column name")))?;
                    watch.watch_column(column, select, schema, json)?;
                }
            }
        }
        Ok(())
    }

    /// The ID that the client chose.
    pub fn id(&self) -> &Json {
        &self.id
    }

    /// The name of the monitored database.
    pub fn database(&self) -> &str {
        &self.database
    }

    /// What its conditions cost.
    pub fn condition_cost(&self) -> ConditionCost {
        let mut cost = ConditionCost::default();
        self.tables.values().for_each(|watch| cost += watch.filter.cost());
        cost
    }

    /// Equal for monitors that get the same updates; `None`: compose the updates of this monitor separately.
    pub fn request_hash(&self) -> Option<u128> {
        self.request_hash
    }

    /// The part of the notification that is the same for all monitors with this [`Monitor::request_hash`];
    /// [`Monitor::notification`] adds the rest. `None`: there is nothing to send.
    pub fn shared_part(&self, schema: &Schema, changes: &Changes) -> Option<String> {
        self.updates(schema, changes)
    }

    /// The text of the notification for one commit. `id`: ID of the transaction.
    pub fn notification(&self, shared_part: &str, id: Uuid) -> String {
        let notification = self.method.notification();
        let since = if self.method == MonitorMethod::Since { format!("\"{id}\",") } else { String::new() };
        format!("{{\"id\":null,\"method\":\"{notification}\",\"params\":[{},{since}{shared_part}]}}", self.id)
    }

    /// Executes `monitor_cond_change`. `taken`: whether the session has another monitor with this id. Returns the text of
    /// the notification about rows that match only the old or only the new conditions. An error changes nothing.
    pub fn change_conditions(
        &mut self,
        db: &Database,
        params: &Json,
        taken: impl Fn(&Json) -> bool,
        limits: &MonitorLimits,
    ) -> Result<Option<String>, Error> {
        let Some([_, new_id, requests]) = params.as_array().map(Vec::as_slice) else {
            return Err(Error::syntax(params, "invalid parameters"));
        };
        if *new_id != self.id && taken(new_id) {
            return Err(Error::syntax(new_id, "duplicate monitor ID"));
        }
        let Some(requests) = requests.as_object() else {
            return Err(Error::bare_syntax("monitor-cond-change-requests must be object"));
        };
        let filters = self.changed_filters(db.schema(), requests)?;
        let mut cost = ConditionCost::default();
        for (table, watch) in &self.tables {
            cost += filters.get(table).unwrap_or(&watch.filter).cost();
        }
        limits.check(cost)?;
        let updates = self.replace_filters(db, filters, limits)?;
        self.request_hash = None;
        self.id = new_id.clone();
        Ok(updates.map(|updates| self.notification(&updates, db.last_transaction())))
    }

    /// The new conditions of a `monitor_cond_change` request.
    fn changed_filters(
        &self,
        schema: &Schema,
        requests: &serde_json::Map<String, Json>,
    ) -> Result<BTreeMap<usize, Filter>, Error> {
        let mut filters = BTreeMap::new();
        for (name, request) in requests {
            let table = known_table(schema, name)?;
            if !self.tables.contains_key(&table) {
                return Err(Error::bare_syntax(format!("no table named {name} in monitor session")));
            }
            let Some(items) = request.as_array() else {
                return Err(Error::bare_syntax(format!("table {name} no monitor-cond-change JSON array")));
            };
            for item in items {
                filters.insert(table, changed_filter(&schema.tables[table], item)?);
            }
        }
        Ok(filters)
    }

    /// Replaces conditions; returns the updates for rows that match only the old or only the new conditions.
    fn replace_filters(
        &mut self,
        db: &Database,
        filters: BTreeMap<usize, Filter>,
        limits: &MonitorLimits,
    ) -> Result<Option<String>, Error> {
        let mut updates = Updates::default();
        for (table, filter) in &filters {
            let Some(watch) = self.tables.get(table) else { continue };
            let schema = &db.schema().tables[*table];
            for (at, row) in db.tables()[*table].rows().values().enumerate() {
                limits.check_abandoned(at)?;
                let update = match (watch.filter.matches(row), filter.matches(row)) {
                    (false, true) => watch.compose(self.method, schema, None, Some(row), false),
                    (true, false) => watch.compose(self.method, schema, Some(row), None, false),
                    _ => None,
                };
                if let Some(update) = update {
                    updates.add(*table, &schema.name, row.uuid(), &update);
                }
            }
        }
        for (table, filter) in filters {
            if let Some(watch) = self.tables.get_mut(&table) {
                watch.filter = filter;
            }
        }
        Ok(updates.finish())
    }

    /// The updates with all rows that match, for the reply to the request.
    fn initial_updates(&self, db: &Database, limits: &MonitorLimits) -> Result<Option<String>, Error> {
        let mut updates = Updates::default();
        for (&table, watch) in &self.tables {
            let schema = &db.schema().tables[table];
            for (at, row) in db.tables()[table].rows().values().enumerate() {
                limits.check_abandoned(at)?;
                if !watch.filter.matches(row) {
                    continue;
                }
                if let Some(update) = watch.compose(self.method, schema, None, Some(row), true) {
                    updates.add(table, &schema.name, row.uuid(), &update);
                }
            }
        }
        Ok(updates.finish())
    }

    /// The updates for some changes, which must be sorted by table.
    fn updates(&self, schema: &Schema, changes: &[RowChange]) -> Option<String> {
        let mut updates = Updates::default();
        for change in changes {
            let Some(watch) = self.tables.get(&change.table) else { continue };
            fn visible<'r>(row: &'r Option<Arc<Row>>, watch: &Watch) -> Option<&'r Row> {
                row.as_deref().filter(|row| watch.filter.matches(row))
            }
            let (old, new) = (visible(&change.old, watch), visible(&change.new, watch));
            let table = &schema.tables[change.table];
            if let Some(update) = watch.compose(self.method, table, old, new, false) {
                updates.add(change.table, &table.name, change.uuid, &update);
            }
        }
        updates.finish()
    }
}

/// A hash of a request.
fn fingerprint(text: &str) -> u128 {
    let digest: [u8; 20] = Sha1::digest(text).into();
    digest.iter().take(16).fold(0, |sum, byte| sum << 8 | u128::from(*byte))
}

fn known_table(schema: &Schema, name: &str) -> Result<usize, Error> {
    schema.table_index(name).ok_or_else(|| Error::bare_syntax(format!("no table named {name}")))
}

fn one_or_many(json: &Json) -> &[Json] {
    json.as_array().map_or(std::slice::from_ref(json), Vec::as_slice)
}

fn changed_filter(table: &TableSchema, json: &Json) -> Result<Filter, Error> {
    let mut members = Members::new(json, format!("table {}", table.name));
    let columns = members.optional("columns", Kinds::ARRAY);
    let condition = members.optional("where", Kinds::ARRAY);
    members.finish()?;
    if columns.is_some() {
        return Err(Error::syntax(json, "changing columns is unsupported"));
    }
    Filter::from_json(table, condition)
}

/// All changes since a transaction, merged to one change per row; `None` if the history does not reach back that far.
fn changes_after(db: &Database, last_id: &Json) -> Result<Option<Changes>, Error> {
    let text = last_id.as_str().ok_or_else(|| Error::syntax(last_id, "last-txn-id must be string"))?;
    let id = parse_uuid(text).ok_or_else(|| Error::syntax(last_id, "last-txn-id must be UUID format."))?;
    if id.is_nil() {
        return Ok(None);
    }
    let Some(history) = db.changes_since(id) else { return Ok(None) };
    let mut merged: BTreeMap<(usize, Uuid), RowChange> = BTreeMap::new();
    for change in history.iter().flat_map(|changes| changes.iter()) {
        merged
            .entry((change.table, change.uuid))
            .and_modify(|known| known.new = change.new.clone())
            .or_insert_with(|| change.clone());
    }
    Ok(Some(merged.into_values().filter(|c| c.old.is_some() || c.new.is_some()).collect()))
}

#[cfg(test)]
mod tests;
