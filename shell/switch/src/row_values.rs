//! The values that the switch wants to write to a database row.

use ovsdb::operation::Operation;
use ovsdb::replica::RowRef;
use ovsdb::{Datum, Replica, Uuid};
use std::collections::BTreeMap;

/// A row and the values that its columns should have.
pub(crate) struct RowValues {
    table: &'static str,
    row: Uuid,
    columns: Vec<(&'static str, Datum)>,
}

impl RowValues {
    pub(crate) fn new(table: &'static str, row: Uuid) -> RowValues {
        RowValues { table, row, columns: Vec::new() }
    }

    pub(crate) fn set(&mut self, column: &'static str, value: Datum) {
        self.columns.push((column, value));
    }

    pub(crate) fn strings(&mut self, column: &'static str, pairs: &BTreeMap<String, String>) {
        self.set(column, Datum::map(pairs.iter().map(|(k, v)| (k.as_str(), v.as_str()))));
    }

    /// An update of the columns whose values in the replica differ; `None` if no column differs.
    pub(crate) fn operation(self, replica: &Replica) -> Option<Operation> {
        let row: RowRef<'_> = replica.row(self.table, self.row)?;
        let mut update = None;
        for (column, value) in self.columns {
            if row.datum(column).is_some_and(|now| *now != value) {
                let operation = update.take().unwrap_or_else(|| Operation::update(self.table, self.row));
                update = Some(operation.set(column, value));
            }
        }
        update
    }
}
