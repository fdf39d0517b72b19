//! Converts a database to another revision of its schema.
//!
//! Rows keep their UUIDs. Tables and columns that the new schema does not have are dropped with their content; new
//! columns get their default value. It is an error if a value does not fit the new type of its column. References, row
//! limits and indexes of the new schema are checked as at the end of a transaction.

use crate::Error;
use crate::database::{Database, Row};
use crate::integrity::Draft;
use crate::schema::{FIRST_COLUMN, Schema, TableSchema};
use crate::value::Datum;
use std::sync::Arc;
use uuid::Uuid;

/// Returns a new database that has `schema` and the content of `db`.
pub fn convert(
    db: &Database,
    schema: Arc<Schema>,
    new_uuid: &mut dyn FnMut() -> Uuid,
) -> Result<Database, Error> {
    if schema.name != db.schema().name {
        let text =
            format!("new schema name ({}) does not match database name ({})", schema.name, db.schema().name);
        return Err(Error::new("invalid parameters", text));
    }
    let mut converted = Database::new(schema.clone(), new_uuid());
    let mut draft = Draft::new(&schema, converted.tables());
    for (index, table) in schema.tables.iter().enumerate() {
        let Some(old_index) = db.schema().table_index(&table.name) else { continue };
        let old_table = &db.schema().tables[old_index];
        for row in db.tables()[old_index].rows().values() {
            let row = convert_row(old_table, row, table)?;
            draft.put((index, row.uuid()), Some(Arc::new(row)));
        }
    }
    let commit = draft.finish(new_uuid)?;
    converted.apply(commit, new_uuid());
    converted.forget_history();
    Ok(converted)
}

fn convert_row(old_table: &TableSchema, old: &Row, table: &TableSchema) -> Result<Row, Error> {
    let mut row = Row::new(table, old.uuid());
    for (index, column) in table.columns.iter().enumerate().skip(FIRST_COLUMN) {
        let Some(old_index) = old_table.column_index(&column.name) else { continue };
        let old_column = &old_table.columns[old_index];
        match old_column.ty == column.ty {
            true => row.set(index, old.shared(old_index).clone()),
            false => row.set(index, Datum::from_json(&old.field(old_index).to_json(), &column.ty, None)?),
        }
    }
    Ok(row)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Operation, transaction};
    use serde_json::Value as Json;
    use serde_json::json;

    fn schema(columns: Json) -> Arc<Schema> {
        let json = json!({"name": "d", "tables": {"t": {"columns": columns}}});
        Arc::new(Schema::from_json(&json).unwrap())
    }

    #[test]
    fn columns_come_go_and_change_their_type() {
        let mut next = 0;
        let mut fresh = || {
            next += 1;
            Uuid::from_u128(next)
        };
        let mut db =
            Database::new(schema(json!({"a": {"type": "integer"}, "b": {"type": "string"}})), fresh());
        let insert = Operation::insert("t", "").set("a", 7).set("b", "x");
        let commit = transaction::apply_own(&db, &[insert], &mut fresh).unwrap();
        db.apply(commit, fresh());
        let set = json!({"type": {"key": "integer", "min": 0, "max": 2}});
        let wider = schema(json!({"a": set, "c": {"type": "string"}}));
        let converted = convert(&db, wider.clone(), &mut fresh).unwrap();
        let of = |db: &Database| db.rows("t").unwrap().values().next().unwrap().clone();
        assert_eq!(of(&converted).uuid(), of(&db).uuid());
        assert_eq!(of(&converted).field(2).to_json(), json!(7));
        assert!(convert(&db, schema(json!({"b": {"type": "integer"}})), &mut fresh).is_err());
    }
}
