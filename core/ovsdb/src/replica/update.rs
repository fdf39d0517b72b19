//! Applies updates from the server to rows.

use super::{ProtocolError, Replica};
use crate::database::Row;
use crate::json::parse_uuid;
use crate::monitor::MonitorMethod;
use crate::schema::{Schema, TableSchema};
use crate::value::Datum;
use serde_json::Value as Json;
use std::collections::BTreeSet;
use std::sync::Arc;
use uuid::Uuid;

/// The update of one row.
struct RowUpdate<'a> {
    table: usize,
    uuid: Uuid,
    json: &'a Json,
}

fn fault(text: &str) -> ProtocolError {
    ProtocolError(text.to_owned())
}

/// Splits `<table-updates>` by row.
fn row_updates<'a>(schema: &Schema, updates: Option<&'a Json>) -> Result<Vec<RowUpdate<'a>>, ProtocolError> {
    let mut found = Vec::new();
    for (name, rows) in
        updates.and_then(Json::as_object).ok_or_else(|| fault("table updates are not an object"))?
    {
        let table = schema.table_index(name).ok_or_else(|| fault("update of a table that does not exist"))?;
        for (uuid, json) in rows.as_object().ok_or_else(|| fault("row updates are not an object"))? {
            let uuid = parse_uuid(uuid).ok_or_else(|| fault("row update without a UUID"))?;
            found.push(RowUpdate { table, uuid, json });
        }
    }
    Ok(found)
}

impl Replica {
    /// Applies an update to the rows.
    pub(super) fn update(
        &mut self,
        updates: Option<&Json>,
        method: MonitorMethod,
    ) -> Result<(), ProtocolError> {
        let Some(schema) = self.schema.clone() else { return Err(fault("update before the schema")) };
        for update in row_updates(&schema, updates)? {
            self.update_row(&schema, &update, method)?;
        }
        Ok(())
    }

    /// Replaces all rows by those in `updates`, which contain the complete database. Other rows are deleted.
    pub(super) fn replace(
        &mut self,
        updates: Option<&Json>,
        method: MonitorMethod,
    ) -> Result<(), ProtocolError> {
        let Some(schema) = self.schema.clone() else { return Err(fault("copy before the schema")) };
        let updates = row_updates(&schema, updates)?;
        let kept: BTreeSet<(usize, Uuid)> = updates.iter().map(|u| (u.table, u.uuid)).collect();
        let all =
            self.tables.iter().enumerate().flat_map(|(t, rows)| rows.keys().map(move |uuid| (t, *uuid)));
        let gone: Vec<_> = all.filter(|id| !kept.contains(id)).collect();
        for (table, uuid) in gone {
            self.put(table, uuid, None);
        }
        for update in updates {
            self.update_row(&schema, &update, method)?;
        }
        Ok(())
    }

    fn update_row(
        &mut self,
        schema: &Schema,
        update: &RowUpdate,
        method: MonitorMethod,
    ) -> Result<(), ProtocolError> {
        let (table, uuid) = (update.table, update.uuid);
        let columns = &schema.tables[table];
        let new = match method {
            MonitorMethod::Plain => match update.json.get("new") {
                Some(new) => Some(fill(columns, Row::new(columns, uuid), new)?),
                None => None,
            },
            _ => {
                let member = update.json.as_object().and_then(|object| object.iter().next());
                let (kind, value) = member.ok_or_else(|| fault("empty row update"))?;
                match kind.as_str() {
                    "initial" | "insert" => Some(fill(columns, Row::new(columns, uuid), value)?),
                    "delete" => None,
                    "modify" => {
                        let old = self.tables[table].get(&uuid);
                        let old = old.ok_or_else(|| fault("modification of a row that does not exist"))?;
                        Some(patch(columns, (**old).clone(), value)?)
                    }
                    _ => return Err(fault("row update of an unknown kind")),
                }
            }
        };
        self.put(table, uuid, new.map(Arc::new));
        Ok(())
    }

    /// Inserts, replaces or (with `None`) deletes a row, and records the change.
    fn put(&mut self, table: usize, uuid: Uuid, new: Option<Arc<Row>>) {
        let rows = &mut self.tables[table];
        let old = match &new {
            Some(row) => rows.insert(uuid, row.clone()),
            None => rows.remove(&uuid),
        };
        if old != new {
            self.before.entry((table, uuid)).or_insert(old);
            self.seqno += 1;
        }
    }
}

/// Sets columns of a row to the values in `json`.
fn fill(table: &TableSchema, mut row: Row, json: &Json) -> Result<Row, ProtocolError> {
    for (name, value) in json.as_object().ok_or_else(|| fault("row is not an object"))? {
        let Some(column) = table.column_index(name) else { continue };
        let value = Datum::from_json(value, &table.columns[column].ty, None);
        row.set(column, value.map_err(|e| ProtocolError(format!("column {name}: {e}")))?);
    }
    Ok(row)
}

/// Applies the differences in `json` to columns of a row.
fn patch(table: &TableSchema, mut row: Row, json: &Json) -> Result<Row, ProtocolError> {
    for (name, value) in json.as_object().ok_or_else(|| fault("row is not an object"))? {
        let Some(column) = table.column_index(name) else { continue };
        let ty = &table.columns[column].ty;
        let value = Datum::diff_from_json(value, ty).and_then(|diff| row.field(column).apply_diff(&diff, ty));
        row.set(column, value.map_err(|e| ProtocolError(format!("column {name}: {e}")))?);
    }
    Ok(row)
}
