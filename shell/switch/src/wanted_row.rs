//! The values that columns of a database row should have.

use ovsdb::operation::Operation;
use ovsdb::replica::RowRef;
use ovsdb::{Datum, Replica, Uuid};
use std::collections::BTreeMap;

/// A row, and the values that its columns should have.
pub(crate) struct Wanted {
    table: &'static str,
    row: Uuid,
    columns: Vec<(&'static str, Datum)>,
}

impl Wanted {
    pub(crate) fn new(table: &'static str, row: Uuid) -> Wanted {
        Wanted { table, row, columns: Vec::new() }
    }

    pub(crate) fn set(&mut self, column: &'static str, value: Datum) {
        self.columns.push((column, value));
    }

    pub(crate) fn strings(&mut self, column: &'static str, pairs: &BTreeMap<String, String>) {
        self.set(column, Datum::map(pairs.iter().map(|(k, v)| (k.as_str(), v.as_str()))));
    }

    /// An update of the columns that differ, if any do.
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
