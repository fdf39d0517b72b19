//! The rows of a database, its snapshots and its recent history.
//!
//! Invariants between commits: strong references point at existing rows and are counted;
//! weak references point at existing rows; each index maps the values of its columns to the
//! one row that has these values. [`crate::integrity`] restores the invariants at each commit. One
//! thread owns a `Database`; a clone is a cheap snapshot.

use crate::json::{object_memory, string_memory};
use crate::schema::{FIRST_COLUMN, Schema, TableSchema, UUID_COLUMN, VERSION_COLUMN};
use crate::value::{Atom, Datum};
use rpds::{HashTrieMapSync, RedBlackTreeMapSync};
use serde_json::Value as Json;
use std::collections::VecDeque;
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::sync::Arc;
use uuid::Uuid;

/// Maximum number of transactions in the history, for clients that resume (`monitor_cond_since`).
const HISTORY_TRANSACTIONS: usize = 100;
/// Maximum number of row changes in the history. A change of a long value counts as several changes:
/// see [`RowChange::weight`].
const HISTORY_CHANGES: usize = 20_000;
/// This many changed elements of values count as one more row change: they take about 3 kB.
const ELEMENTS_OF_A_CHANGE: usize = 64;

/// One row: a value per column of its table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    fields: Vec<Arc<Datum>>,
}

impl Row {
    /// A row with the default value in every column.
    pub fn new(table: &TableSchema, uuid: Uuid) -> Row {
        let mut fields: Vec<_> = table.columns.iter().map(|c| Arc::clone(&c.default)).collect();
        fields[UUID_COLUMN] = Arc::new(Datum::scalar(uuid));
        Row { fields }
    }

    /// The row's UUID.
    pub fn uuid(&self) -> Uuid {
        self.field(UUID_COLUMN).first().and_then(Atom::as_uuid).unwrap_or_default()
    }

    /// The value in the column with index `column`.
    pub fn field(&self, column: usize) -> &Datum {
        &self.fields[column]
    }

    /// The value in the column with index `column`, to be shared with another row.
    pub fn shared(&self, column: usize) -> &Arc<Datum> {
        &self.fields[column]
    }

    /// The value in the column with index `column`, for changes in place.
    pub fn field_mut(&mut self, column: usize) -> &mut Datum {
        Arc::make_mut(&mut self.fields[column])
    }

    /// Replaces the value in the column with index `column`.
    pub fn set(&mut self, column: usize, value: impl Into<Arc<Datum>>) {
        self.fields[column] = value.into();
    }

    /// Sets the row's `_version`.
    pub fn set_version(&mut self, version: Uuid) {
        self.set(VERSION_COLUMN, Datum::scalar(version));
    }

    /// The row's `_version`.
    pub fn version(&self) -> Uuid {
        self.field(VERSION_COLUMN).first().and_then(Atom::as_uuid).unwrap_or_default()
    }

    /// Whether two rows are equal in all columns of the schema; UUID and version may differ.
    pub fn same_content(&self, other: &Row) -> bool {
        self.fields[FIRST_COLUMN..] == other.fields[FIRST_COLUMN..]
    }

    /// Number of elements in the row's long values, in units of [`ELEMENTS_OF_A_CHANGE`]; shorter values count as 0.
    pub(crate) fn long_value_units(&self) -> usize {
        self.fields.iter().map(|field| field.len() / ELEMENTS_OF_A_CHANGE).sum()
    }

    /// Estimated memory of the JSON object of some columns, in bytes.
    pub(crate) fn json_memory(
        &self,
        table: &TableSchema,
        columns: impl ExactSizeIterator<Item = usize>,
    ) -> usize {
        let object = size_of::<Json>() + object_memory(columns.len());
        let member = |c: usize| string_memory(table.columns[c].name.len()) + self.field(c).json_heap_memory();
        object + columns.map(member).sum::<usize>()
    }

    /// The values of the columns of the schema.
    pub(crate) fn content(&self) -> &[Arc<Datum>] {
        &self.fields[FIRST_COLUMN..]
    }
}

/// A persistent map by UUID.
type ByUuid<V> = HashTrieMapSync<Uuid, V, BuildHasherDefault<DefaultHasher>>;

/// Children per node. A transaction copies the nodes on the path to each changed row: 5 nodes in a table with a
/// million rows, while the path in a binary tree would have 20 nodes.
const BRANCHES: u8 = 16;

fn by_uuid<V>() -> ByUuid<V> {
    HashTrieMapSync::new_with_hasher_and_degree_and_ptr_kind(BuildHasherDefault::default(), BRANCHES)
}

/// Rows of a table, by UUID.
pub type Rows = ByUuid<Arc<Row>>;
/// An index: maps the values of its columns to the row that has them.
pub(crate) type Index = RedBlackTreeMapSync<Vec<Arc<Datum>>, Uuid>;

/// One table's rows and the data derived from them.
#[derive(Clone)]
pub struct Table {
    pub(crate) rows: Rows,
    /// Number of strong references to each row; has no entry for a row without strong references.
    pub(crate) references: ByUuid<u64>,
    pub(crate) indexes: Vec<Index>,
    /// The sum of [`Row::long_value_units`] over all rows.
    pub(crate) long_value_units: usize,
}

impl Table {
    fn new(schema: &TableSchema) -> Table {
        let indexes = vec![Index::default(); schema.indexes.len()];
        Table { rows: by_uuid(), references: by_uuid(), indexes, long_value_units: 0 }
    }

    /// The rows.
    pub fn rows(&self) -> &Rows {
        &self.rows
    }

    /// Number of elements in the long values of all rows, in units of 64.
    pub fn long_value_units(&self) -> usize {
        self.long_value_units
    }

    fn json_memory(&self, schema: &TableSchema) -> usize {
        self.rows.values().map(|row| row.json_memory(schema, 0..schema.columns.len())).sum()
    }
}

/// A change of one row by one transaction.
#[derive(Clone, Debug)]
pub struct RowChange {
    /// The table's index in the schema.
    pub table: usize,
    /// The row's UUID.
    pub uuid: Uuid,
    /// The row before the transaction; `None` if it was inserted.
    pub old: Option<Arc<Row>>,
    /// The row after the transaction; `None` if it was deleted.
    pub new: Option<Arc<Row>>,
}

impl RowChange {
    /// Cost of storing the change or sending it to monitors; a change of short values costs 1.
    pub fn weight(&self) -> usize {
        fn fields(row: &Option<Arc<Row>>) -> &[Arc<Datum>] {
            row.as_ref().map_or(&[], |row| &row.fields)
        }
        let (old, new) = (fields(&self.old), fields(&self.new));
        let elements: usize = match old.len() == new.len() {
            // Old and new row share the values that did not change.
            true => {
                let changed = old.iter().zip(new).filter(|(a, b)| !Arc::ptr_eq(a, b));
                changed.map(|(a, b)| a.len() + b.len()).sum()
            }
            false => old.iter().chain(new).map(|field| field.len()).sum(),
        };
        1 + elements / ELEMENTS_OF_A_CHANGE
    }
}

/// All row changes of a transaction.
pub type Changes = Vec<RowChange>;

/// A transaction that passed all checks, ready to be stored and applied.
pub struct Commit {
    pub(crate) tables: Vec<Table>,
    /// The changes; empty if the transaction changes nothing.
    pub changes: Arc<Changes>,
}

/// The sum of [`RowChange::weight`].
fn weight(changes: &Changes) -> usize {
    changes.iter().map(RowChange::weight).sum()
}

/// A database in memory.
#[derive(Clone)]
pub struct Database {
    schema: Arc<Schema>,
    tables: Vec<Table>,
    last_transaction: Uuid,
    /// ID and changes of the last transactions, oldest first.
    history: VecDeque<(Uuid, Arc<Changes>)>,
    /// The sum of [`RowChange::weight`] over the history.
    history_weight: usize,
}

impl Database {
    /// A database without rows. `first_id`: the value of [`Database::last_transaction`] before the first transaction.
    pub fn new(schema: Arc<Schema>, first_id: Uuid) -> Database {
        let tables = schema.tables.iter().map(Table::new).collect();
        Database { schema, tables, last_transaction: first_id, history: VecDeque::new(), history_weight: 0 }
    }

    /// Its schema.
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// Its tables, in the order of the schema.
    pub fn tables(&self) -> &[Table] {
        &self.tables
    }

    /// The rows of the table called `name`.
    pub fn rows(&self, name: &str) -> Option<&Rows> {
        Some(&self.tables.get(self.schema.table_index(name)?)?.rows)
    }

    /// Estimated memory of all rows as JSON objects with all columns, in bytes. Reads all rows.
    pub(crate) fn json_memory(&self) -> usize {
        self.tables.iter().zip(&self.schema.tables).map(|(table, schema)| table.json_memory(schema)).sum()
    }

    /// The ID of the newest transaction.
    pub fn last_transaction(&self) -> Uuid {
        self.last_transaction
    }

    /// Applies a commit, which must have been made from the present state, and adds it to the history as transaction
    /// `id`.
    pub fn apply(&mut self, commit: Commit, id: Uuid) {
        if commit.changes.is_empty() {
            return;
        }
        self.tables = commit.tables;
        self.last_transaction = id;
        self.history_weight += weight(&commit.changes);
        self.history.push_back((id, commit.changes));
        while self.history.len() > HISTORY_TRANSACTIONS || self.history_weight > HISTORY_CHANGES {
            let Some((_, dropped)) = self.history.pop_front() else { break };
            self.history_weight -= weight(&dropped);
        }
    }

    /// A snapshot without history, for [`Database::restore`]. Costs one clone per table.
    pub fn checkpoint(&self) -> Database {
        Database {
            schema: self.schema.clone(),
            tables: self.tables.clone(),
            last_transaction: self.last_transaction,
            history: VecDeque::new(),
            history_weight: 0,
        }
    }

    /// Reverts all commits that were applied since the snapshot was made.
    pub fn restore(&mut self, checkpoint: Database) {
        let since =
            self.history.iter().rev().take_while(|(id, _)| *id != checkpoint.last_transaction).count();
        for _ in 0..since {
            let Some((_, dropped)) = self.history.pop_back() else { break };
            self.history_weight -= weight(&dropped);
        }
        (self.schema, self.tables, self.last_transaction) =
            (checkpoint.schema, checkpoint.tables, checkpoint.last_transaction);
    }

    /// The changes after transaction `id`, oldest first; `None` if the history does not reach back that far.
    pub fn changes_since(&self, id: Uuid) -> Option<Vec<Arc<Changes>>> {
        if id == self.last_transaction {
            return Some(Vec::new());
        }
        let at = self.history.iter().position(|(known, _)| *known == id)?;
        Some(self.history.iter().skip(at + 1).map(|(_, changes)| changes.clone()).collect())
    }

    /// Number of transactions in the history.
    pub fn history_len(&self) -> usize {
        self.history.len()
    }

    /// Clears the history, for example after reading a file: no client knows the IDs of these transactions.
    pub fn forget_history(&mut self) {
        self.history.clear();
        self.history_weight = 0;
    }
}
