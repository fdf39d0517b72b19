//! Typed access to rows. If the server does not have a column, or the column has another type, the default value is
//! returned. So a newer client works with an older schema.

use crate::database::Row;
use crate::schema::TableSchema;
use crate::value::{Atom, Datum};
use std::collections::BTreeMap;
use std::sync::Arc;
use uuid::Uuid;

/// A table of the replica.
#[derive(Clone, Copy)]
pub struct TableRef<'a> {
    pub(super) schema: &'a TableSchema,
    pub(super) rows: &'a BTreeMap<Uuid, Arc<Row>>,
}

impl<'a> TableRef<'a> {
    /// The table's schema.
    pub fn schema(&self) -> &'a TableSchema {
        self.schema
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// All rows, sorted by UUID.
    pub fn rows(self) -> impl Iterator<Item = RowRef<'a>> {
        self.rows.values().map(move |row| RowRef { schema: self.schema, row })
    }

    /// One row.
    pub fn row(self, uuid: Uuid) -> Option<RowRef<'a>> {
        self.rows.get(&uuid).map(|row| RowRef { schema: self.schema, row })
    }

    /// The first row with this value in a string column.
    pub fn find(self, column: &str, value: &str) -> Option<RowRef<'a>> {
        self.rows().find(|row| row.str(column) == value)
    }
}

/// A row with its schema.
#[derive(Clone, Copy)]
pub struct RowRef<'a> {
    pub(super) schema: &'a TableSchema,
    pub(super) row: &'a Row,
}

impl<'a> RowRef<'a> {
    /// The row's UUID.
    pub fn uuid(&self) -> Uuid {
        self.row.uuid()
    }

    /// The table's schema.
    pub fn schema(&self) -> &'a TableSchema {
        self.schema
    }

    /// The value of a column.
    pub fn datum(&self, column: &str) -> Option<&'a Datum> {
        self.schema.column_index(column).map(|index| self.row.field(index))
    }

    /// The value of a column, as an `Arc`: the caller can keep it after the row has changed.
    pub fn shared(&self, column: &str) -> Option<&'a Arc<Datum>> {
        self.schema.column_index(column).map(|index| self.row.shared(index))
    }

    fn first(&self, column: &str) -> Option<&'a Atom> {
        self.datum(column)?.first()
    }

    /// A string, empty if unset.
    pub fn str(&self, column: &str) -> &'a str {
        self.opt_str(column).unwrap_or("")
    }

    /// An optional string.
    pub fn opt_str(&self, column: &str) -> Option<&'a str> {
        self.first(column)?.as_str()
    }

    /// All strings of a set.
    pub fn strs(&self, column: &str) -> impl Iterator<Item = &'a str> {
        self.datum(column).into_iter().flat_map(Datum::keys).filter_map(Atom::as_str)
    }

    /// An integer, 0 if unset.
    pub fn int(&self, column: &str) -> i64 {
        self.opt_int(column).unwrap_or(0)
    }

    /// An optional integer.
    pub fn opt_int(&self, column: &str) -> Option<i64> {
        self.first(column)?.as_integer()
    }

    /// All integers of a set.
    pub fn ints(&self, column: &str) -> impl Iterator<Item = i64> {
        self.datum(column).into_iter().flat_map(Datum::keys).filter_map(Atom::as_integer)
    }

    /// A boolean, false if unset.
    pub fn bool(&self, column: &str) -> bool {
        self.opt_bool(column).unwrap_or(false)
    }

    /// An optional boolean.
    pub fn opt_bool(&self, column: &str) -> Option<bool> {
        self.first(column)?.as_bool()
    }

    /// All UUIDs among the elements of a set, or among the keys and values of a map.
    pub fn uuids(&self, column: &str) -> impl Iterator<Item = Uuid> {
        self.datum(column).into_iter().flat_map(Datum::uuids)
    }

    /// A map from strings to strings.
    pub fn map(&self, column: &str) -> BTreeMap<&'a str, &'a str> {
        self.pairs(column).filter_map(|(k, v)| Some((k.as_str()?, v.as_str()?))).collect()
    }

    /// One value of a map from strings to strings.
    pub fn map_str(&self, column: &str, key: &str) -> Option<&'a str> {
        self.datum(column)?.get_str(key)
    }

    /// The pairs of a map.
    pub fn pairs(&self, column: &str) -> impl Iterator<Item = (&'a Atom, &'a Atom)> {
        self.datum(column).into_iter().flat_map(|datum| datum.keys().zip(datum.values()))
    }
}
