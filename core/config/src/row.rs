//! Typed access to the columns of a database row.
//!
//! A column that the server's schema does not have reads as empty: the database may be older than the switch.

use ovsdb::replica::RowRef;
use ovsdb::{Atom, Datum, Replica, Uuid};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A row of a replica, with access to the rows to which it refers.
#[derive(Clone, Copy)]
pub struct Row<'a> {
    db: &'a Replica,
    row: RowRef<'a>,
    /// UUID of the row.
    pub uuid: Uuid,
}

impl<'a> Row<'a> {
    /// Finds a row of a table; `None` if the replica does not have it.
    pub fn find(db: &'a Replica, table: &str, uuid: Uuid) -> Option<Row<'a>> {
        db.row(table, uuid).map(|row| Row { db, row, uuid })
    }

    /// The row of a table that has at most one row.
    pub fn only(db: &'a Replica, table: &str) -> Option<Row<'a>> {
        db.rows(table).next().map(|row| Row { db, row, uuid: row.uuid() })
    }

    /// The rows of another table to which a column refers.
    pub fn references(&self, column: &str, table: &str) -> Vec<Row<'a>> {
        self.row.uuids(column).filter_map(|uuid| Row::find(self.db, table, uuid)).collect()
    }

    /// All rows of another table.
    pub fn all_of(&self, table: &str) -> Vec<Row<'a>> {
        self.db.rows(table).map(|row| Row { db: self.db, row, uuid: row.uuid() }).collect()
    }

    /// The UUIDs in a column.
    pub fn uuids(&self, column: &str) -> Vec<Uuid> {
        self.row.uuids(column).collect()
    }

    /// A column, to be kept after the row has changed.
    pub fn shared(&self, column: &str) -> Option<Arc<Datum>> {
        self.row.shared(column).cloned()
    }

    fn datum(&self, column: &str) -> Option<&'a Datum> {
        self.row.datum(column)
    }

    fn first(&self, column: &str) -> Option<&'a Atom> {
        self.datum(column).and_then(Datum::first)
    }

    /// A string column; empty if absent.
    pub fn str(&self, column: &str) -> &'a str {
        self.opt_str(column).unwrap_or("")
    }

    /// An optional string column.
    pub fn opt_str(&self, column: &str) -> Option<&'a str> {
        self.first(column).and_then(Atom::as_str)
    }

    /// An optional integer column.
    pub fn opt_int(&self, column: &str) -> Option<i64> {
        self.first(column).and_then(Atom::as_integer)
    }

    /// A boolean column; false if absent.
    pub fn bool(&self, column: &str) -> bool {
        self.opt_bool(column).unwrap_or(false)
    }

    /// An optional boolean column.
    pub fn opt_bool(&self, column: &str) -> Option<bool> {
        self.first(column).and_then(Atom::as_bool)
    }

    /// A set of integers.
    pub fn ints(&self, column: &str) -> Vec<i64> {
        self.datum(column).map(|d| d.keys().filter_map(Atom::as_integer).collect()).unwrap_or_default()
    }

    /// A set of strings.
    pub fn strs(&self, column: &str) -> Vec<&'a str> {
        self.datum(column).map(|d| d.keys().filter_map(Atom::as_str).collect()).unwrap_or_default()
    }

    /// A map of strings to strings.
    pub fn map(&self, column: &str) -> BTreeMap<String, String> {
        let Some(datum) = self.datum(column) else { return BTreeMap::new() };
        datum
            .keys()
            .zip(datum.values())
            .filter_map(|(k, v)| Some((k.as_str()?.to_owned(), v.as_str()?.to_owned())))
            .collect()
    }

    /// A map of strings to integers.
    pub fn int_map(&self, column: &str) -> BTreeMap<String, i64> {
        let Some(datum) = self.datum(column) else { return BTreeMap::new() };
        let pairs = datum.keys().zip(datum.values());
        pairs.filter_map(|(k, v)| Some((k.as_str()?.to_owned(), v.as_integer()?))).collect()
    }

    /// A map of integers to integers.
    pub fn int_pairs(&self, column: &str) -> Vec<(i64, i64)> {
        let Some(datum) = self.datum(column) else { return Vec::new() };
        let pairs = datum.keys().zip(datum.values());
        pairs.filter_map(|(k, v)| Some((k.as_integer()?, v.as_integer()?))).collect()
    }

    /// A map of strings to rows of another table.
    pub fn str_references(&self, column: &str, table: &str) -> Vec<(&'a str, Row<'a>)> {
        let Some(datum) = self.datum(column) else { return Vec::new() };
        datum
            .keys()
            .zip(datum.values())
            .filter_map(|(k, v)| Some((k.as_str()?, Row::find(self.db, table, v.as_uuid()?)?)))
            .collect()
    }

    /// A map of integers to rows of another table.
    pub fn int_references(&self, column: &str, table: &str) -> Vec<(i64, Row<'a>)> {
        let Some(datum) = self.datum(column) else { return Vec::new() };
        datum
            .keys()
            .zip(datum.values())
            .filter_map(|(k, v)| Some((k.as_integer()?, Row::find(self.db, table, v.as_uuid()?)?)))
            .collect()
    }
}
