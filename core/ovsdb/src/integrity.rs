//! Checks at the end of a transaction: references, garbage collection, row limits, indexes (RFC 7047 sections
//! 3.2 and 4.1.3).
//!
//! The cost is proportional to the number of changed rows, not to the size of the database. One exception: when a row is
//! deleted, all rows of tables with weak references to its table are visited.

use crate::Error;
use crate::database::{Commit, Row, RowChange, Table};
use crate::schema::{FIRST_COLUMN, Schema, TableSchema};
use crate::value::{Atom, Datum};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use uuid::Uuid;

/// A row: its table's index and its UUID.
pub(crate) type RowKey = (usize, Uuid);

/// A strong reference: the referring column and the target row.
type Reference = (usize, RowKey);

/// The rows that a transaction inserted, changed or deleted, each with its content before the transaction; `None`: the
/// transaction inserted the row.
type ChangedRows = BTreeMap<RowKey, Option<Arc<Row>>>;

/// A transaction's working copy of the tables.
pub(crate) struct Draft<'a> {
    pub schema: &'a Schema,
    pub tables: Vec<Table>,
    pub touched: ChangedRows,
    /// Number of calls of [`Draft::put`] and [`Draft::change`].
    puts: usize,
}

impl<'a> Draft<'a> {
    /// A draft of these tables, without changes yet.
    pub fn new(schema: &'a Schema, tables: &[Table]) -> Draft<'a> {
        Draft { schema, tables: tables.to_vec(), touched: ChangedRows::new(), puts: 0 }
    }

    pub fn get(&self, (table, uuid): RowKey) -> Option<&Arc<Row>> {
        self.tables.get(table)?.rows.get(&uuid)
    }

    /// Inserts, replaces or (with `None`) deletes a row; stores the original row in `touched`.
    pub fn put(&mut self, id: RowKey, row: Option<Arc<Row>>) {
        self.puts += 1;
        let table = &mut self.tables[id.0];
        let original = table.rows.get(&id.1).cloned();
        self.touched.entry(id).or_insert(original);
        match row {
            Some(row) => table.rows.insert_mut(id.1, row),
            None => _ = table.rows.remove_mut(&id.1),
        }
    }

    /// Changes a row in place; stores the original row in `touched`. If the caller holds no reference to the row, the row
    /// and its values are copied once per transaction and not once per operation. After an error the draft must be
    /// dropped.
    pub fn change(
        &mut self,
        (table, uuid): RowKey,
        change: impl FnOnce(&mut Row) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.puts += 1;
        let Some(row) = self.tables[table].rows.get_mut(&uuid) else { return Ok(()) };
        self.touched.entry((table, uuid)).or_insert_with(|| Some(row.clone()));
        change(Arc::make_mut(row))
    }

    /// Checks references, row limits and indexes, deletes rows that lost their last reference, sets row versions, and
    /// returns the commit.
    pub fn finish(mut self, new_uuid: &mut dyn FnMut() -> Uuid) -> Result<Commit, Error> {
        self.forget_unchanged();
        let puts = self.puts;
        self.count_references()?;
        self.check_max_rows()?;
        self.drop_dangling_weak_references()?;
        if self.puts > puts {
            self.forget_unchanged();
        }
        self.update_indexes()?;
        for (&id, old) in &self.touched {
            let Some(row) = self.tables[id.0].rows.get_mut(&id.1) else { continue };
            // An inserted row has a version already; a row read from a file has none.
            if old.is_some() || row.version().is_nil() {
                Arc::make_mut(row).set_version(new_uuid());
            }
        }
        self.count_long_values();
        let tables = &self.tables;
        let change = |((table, uuid), old)| {
            let new = tables.get::<usize>(table).and_then(|t: &Table| t.rows.get(&uuid)).cloned();
            RowChange { table, uuid, old, new }
        };
        let changes = self.touched.into_iter().map(change).collect();
        Ok(Commit { changes: Arc::new(changes), tables: self.tables })
    }

    /// Updates `long_value_units` of the tables.
    fn count_long_values(&mut self) {
        for (&(table, uuid), old) in &self.touched {
            let table = &mut self.tables[table];
            let count = |row: Option<&Arc<Row>>| row.map_or(0, |row| row.long_value_units());
            table.long_value_units += count(table.rows.get(&uuid));
            table.long_value_units -= count(old.as_ref());
        }
    }

    /// Removes rows from `touched` that are now equal to their original.
    fn forget_unchanged(&mut self) {
        let tables = &self.tables;
        self.touched.retain(|&(table, uuid), old| match (old, tables[table].rows.get(&uuid)) {
            (None, None) => false,
            (Some(old), Some(new)) => !old.same_content(new),
            _ => true,
        });
    }

    /// Updates the counts of strong references, then deletes rows without references.
    fn count_references(&mut self) -> Result<(), Error> {
        let mut suspects = BTreeSet::new();
        let touched: Vec<_> = self.touched.iter().map(|(id, old)| (*id, old.clone())).collect();
        for (id, old) in &touched {
            let table = &self.schema.tables[id.0];
            let sorted = |row: Option<&Arc<Row>>| {
                let mut found = row.map(|row| strong_references(table, row)).unwrap_or_default();
                found.sort_unstable();
                found
            };
            // Compare old and new references: if a long list gains one element, only one count changes.
            let (old, new) = (sorted(old.as_ref()), sorted(self.get(*id)));
            more_often_in(&old, &new).for_each(|r| self.remove_reference(*id, *r, &mut suspects));
            more_often_in(&new, &old).try_for_each(|r| self.add_reference(*id, *r))?;
            if !table.is_root {
                suspects.insert(*id);
            }
        }
        for (id, _) in &touched {
            let count = self.reference_count(*id);
            if self.get(*id).is_none() && count > 0 {
                let text = format!(
                    "cannot delete {} row {} because of {count} remaining reference(s)",
                    self.schema.tables[id.0].name, id.1
                );
                return Err(Error::new("referential integrity violation", text));
            }
        }
        while let Some(id) = suspects.pop_first() {
            if self.schema.tables[id.0].is_root || self.reference_count(id) > 0 {
                continue;
            }
            if let Some(row) = self.get(id).cloned() {
                self.put(id, None);
                for reference in strong_references(&self.schema.tables[id.0], &row) {
                    self.remove_reference(id, reference, &mut suspects);
                }
            }
        }
        self.touched
            .retain(|&(table, uuid), old| old.is_some() || self.tables[table].rows.contains_key(&uuid));
        Ok(())
    }

    /// The number of strong references to a row.
    fn reference_count(&self, (table, uuid): RowKey) -> u64 {
        self.tables[table].references.get(&uuid).copied().unwrap_or(0)
    }

    /// Counts a new strong reference of row `id`. A reference to the row itself does not count: it must not keep the row.
    fn add_reference(&mut self, id: RowKey, (column, target): Reference) -> Result<(), Error> {
        if target == id {
            return Ok(());
        }
        if self.get(target).is_none() && !self.touched.contains_key(&target) {
            let table = &self.schema.tables[id.0];
            let text = format!(
                "Table {} column {} row {} references nonexistent row {} in table {}.",
                table.name, table.columns[column].name, id.1, target.1, self.schema.tables[target.0].name
            );
            return Err(Error::new("referential integrity violation", text));
        }
        let count = self.reference_count(target) + 1;
        self.tables[target.0].references.insert_mut(target.1, count);
        Ok(())
    }

    /// Subtracts a strong reference of row `id` from the count of the target. This may have been the last reference, so
    /// the target is added to `suspects`.
    fn remove_reference(&mut self, id: RowKey, (_, target): Reference, suspects: &mut BTreeSet<RowKey>) {
        if target == id {
            return;
        }
        let references = &mut self.tables[target.0].references;
        match references.get(&target.1).copied() {
            Some(count) if count > 1 => references.insert_mut(target.1, count - 1),
            _ => _ = references.remove_mut(&target.1),
        }
        suspects.insert(target);
    }

    fn check_max_rows(&self) -> Result<(), Error> {
        let tables: BTreeSet<usize> = self.touched.keys().map(|id| id.0).collect();
        for table in tables {
            let (rows, schema) = (self.tables[table].rows.size(), &self.schema.tables[table]);
            if rows > schema.max_rows as usize {
                return Err(Error::constraint(format!(
                    "transaction causes \"{}\" table to contain {rows} rows, greater than the schema-defined limit of {} row(s)",
                    schema.name, schema.max_rows
                )));
            }
        }
        Ok(())
    }

    fn drop_dangling_weak_references(&mut self) -> Result<(), Error> {
        let deleted = |id: &RowKey| self.get(*id).is_none();
        let deleted_from: BTreeSet<usize> =
            self.touched.keys().filter(|id| deleted(id)).map(|id| id.0).collect();
        let weak = |table: &TableSchema| -> Vec<usize> {
            let references = table.columns.iter().flat_map(|c| c.ty.references());
            references.filter(|(_, to)| !to.strong).map(|(_, to)| to.index).collect()
        };
        let weak: Vec<Vec<usize>> = self.schema.tables.iter().map(weak).collect();
        let candidates = self.touched.keys().filter(|id| !weak[id.0].is_empty() && !deleted(id));
        let mut sources: BTreeSet<RowKey> = candidates.copied().collect();
        for (table_index, targets) in weak.iter().enumerate() {
            if targets.iter().any(|to| deleted_from.contains(to)) {
                sources.extend(self.tables[table_index].rows.keys().map(|uuid| (table_index, *uuid)));
            }
        }
        sources.into_iter().try_for_each(|id| self.prune(id))
    }

    /// Removes a row's weak references to rows that do not exist.
    fn prune(&mut self, id: RowKey) -> Result<(), Error> {
        let schema = &self.schema.tables[id.0];
        let Some(row) = self.get(id).cloned() else { return Ok(()) };
        let mut pruned: Option<Row> = None;
        for (column_index, column) in schema.columns.iter().enumerate().skip(FIRST_COLUMN) {
            if column.ty.references().all(|(_, to)| to.strong) {
                continue;
            }
            let mut field = row.field(column_index).clone();
            for (is_key, to) in column.ty.references().filter(|(_, to)| !to.strong) {
                let rows = &self.tables[to.index].rows;
                let alive = |atom: &Atom| atom.as_uuid().is_some_and(|uuid| rows.contains_key(&uuid));
                match &mut field {
                    Datum::Set(atoms) => atoms.retain(alive),
                    Datum::Map(pairs) => pairs.retain(|(k, v)| alive(if is_key { k } else { v })),
                }
            }
            let lost = row.field(column_index).len() - field.len();
            if lost == 0 {
                continue;
            }
            if !column.ty.admits_len(field.len()) {
                let zero = row.field(column_index).uuids().any(|uuid| uuid.is_nil());
                let inserted = self.touched.get(&id).is_some_and(Option::is_none);
                return Err(emptied_column_error(&column.name, schema, id.1, lost, inserted, zero));
            }
            pruned.get_or_insert_with(|| (*row).clone()).set(column_index, field);
        }
        if let Some(row) = pruned {
            self.put(id, Some(Arc::new(row)));
        }
        Ok(())
    }

    /// Updates the indexes; an error if two rows have the same values in the columns of an index.
    fn update_indexes(&mut self) -> Result<(), Error> {
        // Remove all old keys before adding new ones, so that a transaction may swap the values of two rows.
        for insert in [false, true] {
            for (&(table, uuid), old) in &self.touched {
                let schema = &self.schema.tables[table];
                if schema.indexes.is_empty() {
                    continue;
                }
                let Table { rows, indexes, .. } = &mut self.tables[table];
                for (columns, index) in schema.indexes.iter().zip(indexes) {
                    match (insert, old, rows.get(&uuid)) {
                        (false, Some(old), _) => _ = index.remove_mut(&index_key(columns, old)),
                        (true, _, Some(new)) => {
                            let key = index_key(columns, new);
                            if let Some(other) = index.get(&key).and_then(|other| rows.get(other)) {
                                return Err(duplicate_error(
                                    schema,
                                    table,
                                    columns,
                                    new,
                                    other,
                                    &self.touched,
                                ));
                            }
                            index.insert_mut(key, uuid);
                        }
                        _ => {}
                    }
                }
            }
        }
        Ok(())
    }
}

fn index_key(columns: &[usize], row: &Row) -> Vec<Arc<Datum>> {
    columns.iter().map(|&c| row.shared(c).clone()).collect()
}

/// The strong references of a row; with duplicates if several pairs of a map refer to the same row.
fn strong_references(table: &TableSchema, row: &Row) -> Vec<Reference> {
    let mut found = Vec::new();
    for (column_index, column) in table.columns.iter().enumerate().skip(FIRST_COLUMN) {
        for (is_key, to) in column.ty.references().filter(|(_, to)| to.strong) {
            let mut add =
                |atom: &Atom| found.extend(atom.as_uuid().map(|uuid| (column_index, (to.index, uuid))));
            let field = row.field(column_index);
            if is_key { field.keys().for_each(&mut add) } else { field.values().for_each(&mut add) }
        }
    }
    found
}

/// The references that occur more often in `list` than in `other`, once per additional occurrence. Both lists are sorted.
fn more_often_in<'a>(list: &'a [Reference], other: &'a [Reference]) -> impl Iterator<Item = &'a Reference> {
    let mut other = other.iter().peekable();
    list.iter().filter(move |r| {
        while other.next_if(|o| o < r).is_some() {}
        other.next_if_eq(r).is_none()
    })
}

/// The error for a column that lost its last weak references but must not be empty.
fn emptied_column_error(
    column: &str,
    table: &TableSchema,
    uuid: Uuid,
    lost: usize,
    inserted: bool,
    zero: bool,
) -> Error {
    let table = &table.name;
    Error::constraint(if zero && inserted {
        // "volation" is the spelling of `ovsdb-server`; tests compare the text.
        format!(
            "Weak reference column \"{column}\" in \"{table}\" row {uuid} (inserted within this transaction) \
             contained all-zeros UUID (probably as the default value for this column) but deleting this value \
             caused a constraint volation because this column is not allowed to be empty."
        )
    } else {
        let inserted = if inserted { "(inserted within this transaction) " } else { "" };
        format!(
            "Deletion of {lost} weak reference(s) to deleted (or never-existing) rows from column \"{column}\" \
             in \"{table}\" row {uuid} {inserted}caused this column to become empty, but constraints on this \
             column disallow an empty column."
        )
    })
}

/// The error for two rows with the same values in the columns of an index.
fn duplicate_error(
    schema: &TableSchema,
    table: usize,
    columns: &[usize],
    a: &Row,
    b: &Row,
    touched: &ChangedRows,
) -> Error {
    let (a, b) = if (a.content(), a.uuid()) < (b.content(), b.uuid()) { (b, a) } else { (a, b) };
    let values = |row: &Row| english_list(columns.iter().map(|&c| row.field(c).to_string()));
    let history_text = |row: &Row| {
        match touched.get(&(table, row.uuid())) {
        None => "existed in the database before this transaction and was not modified by the transaction.".to_owned(),
        Some(None) => "was inserted by this transaction.".to_owned(),
        Some(Some(old)) if index_key(columns, old) == index_key(columns, row) => {
            "existed in the database before this transaction, which modified some of the row's columns but not \
             any columns in this index."
                .to_owned()
        }
        Some(Some(old)) => format!("had the following index values before the transaction: {}.", values(old)),
    }
    };
    let plural = if columns.len() > 1 { "s" } else { "" };
    let names = english_list(columns.iter().map(|&c| format!("\"{}\"", schema.columns[c].name)));
    Error::constraint(format!(
        "Transaction causes multiple rows in \"{}\" table to have identical values ({}) for index on \
         column{plural} {names}.  First row, with UUID {}, {}  Second row, with UUID {}, {}",
        schema.name,
        values(a),
        a.uuid(),
        history_text(a),
        b.uuid(),
        history_text(b)
    ))
}

/// Formats a list as in "a, b, and c".
fn english_list(items: impl Iterator<Item = String>) -> String {
    let items: Vec<_> = items.collect();
    match items.as_slice() {
        [] => String::new(),
        [one] => one.clone(),
        [one, two] => format!("{one} and {two}"),
        [head @ .., last] => format!("{}, and {last}", head.join(", ")),
    }
}
