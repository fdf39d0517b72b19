//! The reads and writes of one run of the commands. Reads see the copy of the database with the changes of this run
//! applied, except pairs of maps ([`Transaction::write_pair`]). The changes are then sent to the server as operations.
//!
//! New rows have temporary UUIDs until the server assigns their UUIDs; operations refer to such rows by
//! names. A column on which a decision depends is *verified*: the server refuses the transaction if the
//! column has changed since this run read the database.

use super::schema_names::{known_table, schema};
use ovsdb::json::sorted_string;
use ovsdb::operation::RowId;
use ovsdb::schema::TableSchema;
use ovsdb::{Atom, Datum, Json, Operation, Replica, Uuid};
use std::collections::{BTreeMap, BTreeSet};

/// Where a row comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// The row is in the database.
    Stored,
    /// This transaction inserts the row.
    New,
    /// This transaction inserts the row with a UUID that the user has chosen.
    WithUuid,
}

/// The changes of this transaction to one row.
#[derive(Debug)]
struct RowChange {
    table: &'static TableSchema,
    origin: Origin,
    deleted: bool,
    verified: BTreeSet<&'static str>,
    written: BTreeMap<&'static str, Datum>,
    /// Pairs (column, key, value) to write by a mutation, so that the transaction does not depend on the other keys of the map.
    pairs: Vec<(&'static str, Atom, Atom)>,
}

/// The copy of the database with the changes of this transaction.
pub struct Transaction<'a> {
    replica: &'a Replica,
    rows: BTreeMap<Uuid, RowChange>,
    order: Vec<Uuid>,
}

/// A transaction as operations for the server.
pub struct Request {
    /// The operations, in order.
    pub operations: Vec<Operation>,
    /// The index of each row's insert operation.
    pub insertions: BTreeMap<Uuid, usize>,
    /// The index of the operation that reads `next_cfg` after its increase.
    pub counter: Option<usize>,
    /// Whether the operations change anything.
    pub changes: bool,
}

impl<'a> Transaction<'a> {
    /// A transaction without changes.
    pub fn new(replica: &'a Replica) -> Self {
        Transaction { replica, rows: BTreeMap::new(), order: Vec::new() }
    }

    /// The changes to a row. `origin`: used only if the row has none yet.
    fn changes_of(&mut self, table: &str, row: Uuid, origin: Origin) -> &mut RowChange {
        let order = &mut self.order;
        self.rows.entry(row).or_insert_with(|| {
            order.push(row);
            RowChange {
                table: known_table(table),
                origin,
                deleted: false,
                verified: BTreeSet::new(),
                written: BTreeMap::new(),
                pairs: Vec::new(),
            }
        })
    }

    /// All rows of a table that are not deleted.
    pub fn rows(&self, table: &str) -> Vec<Uuid> {
        let stored = self.replica.rows(table).map(|row| row.uuid());
        let stored = stored.filter(|row| self.rows.get(row).is_none_or(|t| !t.deleted));
        let new = self.order.iter().copied().filter(|row| {
            self.rows
                .get(row)
                .is_some_and(|t| t.origin != Origin::Stored && !t.deleted && t.table.name == table)
        });
        stored.chain(new).collect()
    }

    /// Whether this transaction inserts the row.
    pub fn is_new(&self, row: Uuid) -> bool {
        self.rows.get(&row).is_some_and(|t| t.origin != Origin::Stored)
    }

    /// Returns whether a table has this row.
    pub fn exists(&self, table: &str, row: Uuid) -> bool {
        match self.rows.get(&row) {
            Some(touched) => touched.table.name == table && !touched.deleted,
            None => self.replica.row(table, row).is_some(),
        }
    }

    /// The value of a column; the default of the column if the row does not exist or the server has no such column.
    pub fn datum(&self, table: &str, row: Uuid, column: &str) -> Datum {
        let written = self.rows.get(&row).and_then(|t| t.written.get(column));
        written.cloned().unwrap_or_else(|| self.stored(table, row, column))
    }

    fn stored(&self, table: &str, row: Uuid, column: &str) -> Datum {
        let stored = self.replica.row(table, row).and_then(|r| r.datum(column));
        let default = || known_table(table).column(column).map(|c| Datum::default_of(&c.ty));
        stored.cloned().or_else(default).unwrap_or(Datum::Set(Vec::new()))
    }

    /// The string in a column; empty if there is none.
    pub fn string(&self, table: &str, row: Uuid, column: &str) -> String {
        self.datum(table, row, column).first().and_then(Atom::as_str).unwrap_or_default().to_owned()
    }

    /// The integer in a column.
    pub fn integer(&self, table: &str, row: Uuid, column: &str) -> Option<i64> {
        self.datum(table, row, column).first().and_then(Atom::as_integer)
    }

    /// The boolean in a column; false if there is none.
    pub fn flag(&self, table: &str, row: Uuid, column: &str) -> bool {
        self.datum(table, row, column).first().and_then(Atom::as_bool).unwrap_or(false)
    }

    /// The rows that a column refers to.
    pub fn references(&self, table: &str, row: Uuid, column: &str) -> Vec<Uuid> {
        self.datum(table, row, column).uuids().collect()
    }

    /// Verifies a column: the transaction fails if its value has changed since this run read the database.
    pub fn verify(&mut self, table: &str, row: Uuid, column: &str) {
        if self.replica.row(table, row).is_none() {
            return;
        }
        let touched = self.changes_of(table, row, Origin::Stored);
        if let Some(column) = touched.table.column(column)
            && !touched.written.contains_key(column.name.as_str())
        {
            touched.verified.insert(&column.name);
        }
    }

    /// Writes a column.
    pub fn write(&mut self, table: &str, row: Uuid, column: &str, value: Datum) {
        let touched = self.changes_of(table, row, Origin::Stored);
        if let Some(column) = touched.table.column(column) {
            touched.written.insert(&column.name, value);
        }
    }

    /// Writes one pair of a map; concurrent changes of other clients to other keys are kept. Later reads of this transaction
    /// do not see the pair.
    pub fn write_pair(&mut self, table: &str, row: Uuid, column: &str, key: Atom, value: Atom) {
        if self.datum(table, row, column).get(&key) == Some(&value) {
            return;
        }
        let touched = self.changes_of(table, row, Origin::Stored);
        if let Some(column) = touched.table.column(column) {
            touched.pairs.retain(|(c, k, _)| *c != column.name || *k != key);
            touched.pairs.push((&column.name, key, value));
        }
    }

    /// Inserts a row, with the UUID `uuid` if that is set.
    pub fn insert(&mut self, table: &str, uuid: Option<Uuid>) -> Uuid {
        let row = uuid.unwrap_or_else(Uuid::new_v4);
        self.changes_of(table, row, if uuid.is_some() { Origin::WithUuid } else { Origin::New });
        row
    }

    /// Inserts a row for `--id=@NAME`. `row`: the temporary UUID that stands for the name.
    pub fn insert_as(&mut self, table: &str, row: Uuid) {
        self.changes_of(table, row, Origin::New);
    }

    /// Deletes a row. A row of a non-root table needs no operation: the server deletes it when its last reference is removed.
    pub fn delete(&mut self, table: &str, row: Uuid) {
        self.changes_of(table, row, Origin::Stored).deleted = true;
    }

    /// Adds a row to a set of references.
    pub fn add_reference(&mut self, table: &str, row: Uuid, column: &str, to: Uuid) {
        let all = self.references(table, row, column).into_iter().chain([to]);
        self.write(table, row, column, Datum::set(all));
    }

    /// Removes a row from a set of references.
    pub fn drop_reference(&mut self, table: &str, row: Uuid, column: &str, to: Uuid) {
        let rest = self.references(table, row, column).into_iter().filter(|r| *r != to);
        self.write(table, row, column, Datum::set(rest));
    }

    /// Returns the operations. `next_cfg_row`: the root row, whose `next_cfg` is increased if the transaction changes anything.
    pub fn request(&self, next_cfg_row: Option<Uuid>, comment: &str, dry_run: bool) -> Request {
        let mut request =
            Request { operations: Vec::new(), insertions: BTreeMap::new(), counter: None, changes: false };
        self.touched().for_each(|(row, touched)| self.add_wait(row, touched, &mut request));
        self.add_empty_table_waits(&mut request);
        for (row, touched) in self.touched() {
            self.add_row_operations(row, touched, &mut request);
        }
        if let Some(row) = next_cfg_row.filter(|_| request.changes) {
            let target = self.row_id(row);
            let is = Json::from(vec![Json::from(vec!["_uuid".into(), "==".into(), target.to_json()])]);
            request.operations.push(Operation::mutate("Open_vSwitch", target).mutation("next_cfg", "+=", 1));
            request.counter = Some(request.operations.len());
            request.operations.push(Operation::select("Open_vSwitch", is, &["next_cfg"]));
        }
        request.operations.push(Operation::comment(comment));
        if dry_run {
            request.operations.push(Operation::abort());
        }
        request
    }

    fn touched(&self) -> impl Iterator<Item = (Uuid, &RowChange)> {
        self.order.iter().filter_map(|row| Some((*row, self.rows.get(row)?)))
    }

    fn add_wait(&self, row: Uuid, touched: &RowChange, request: &mut Request) {
        if touched.verified.is_empty() {
            return;
        }
        let table = &touched.table.name;
        let wait = touched.verified.iter().fold(Operation::verify(table, row), |wait, column| {
            wait.set(column, self.stored(table, row, column).to_json())
        });
        request.operations.push(wait);
    }

    /// Requires that a table with at most one row is still empty when its row is inserted.
    fn add_empty_table_waits(&self, request: &mut Request) {
        for table in schema().tables.iter().filter(|t| t.max_rows == 1) {
            let stored = self.replica.rows(&table.name).count();
            if stored == 0 && self.rows(&table.name).len() == 1 {
                let wait = Operation::from_json(Json::from_iter([
                    ("op", Json::from("wait")),
                    ("table", table.name.as_str().into()),
                    ("where", Json::Array(Vec::new())),
                    ("timeout", 0.into()),
                    ("until", "==".into()),
                    ("rows", Json::Array(Vec::new())),
                ]));
                request.operations.extend(wait);
            }
        }
    }

    fn add_row_operations(&self, row: Uuid, touched: &RowChange, request: &mut Request) {
        let table = &touched.table.name;
        if touched.deleted {
            // The server deletes rows of non-root tables that no row refers to, so they need no operation.
            if touched.table.is_root && touched.origin == Origin::Stored {
                request.operations.push(Operation::delete(table, row));
                request.changes = true;
            }
            return;
        }
        let stored = touched.origin == Origin::Stored;
        if !stored {
            request.changes = true;
            request.insertions.insert(row, request.operations.len());
        }
        let mut operation = match touched.origin {
            Origin::Stored => Operation::update(table, row),
            Origin::New => Operation::insert(table, &name_of(row)),
            Origin::WithUuid => insert_with_uuid(table, row),
        };
        let default = |column: &str, value: &Datum| {
            touched.table.column(column).is_some_and(|c| value.is_default(&c.ty))
        };
        let written = touched.written.iter().filter(|(column, value)| stored || !default(column, value));
        for (column, value) in written.clone() {
            operation = operation.set(column, self.named(value.to_json()));
            request.changes |= stored && *value != self.stored(table, row, column);
        }
        if !stored || written.count() > 0 {
            request.operations.push(operation);
        }
        if !touched.pairs.is_empty() {
            request.operations.push(self.mutate_pairs(row, touched));
            request.changes = true;
        }
    }

    fn mutate_pairs(&self, row: Uuid, touched: &RowChange) -> Operation {
        let start = Operation::mutate(&touched.table.name, self.row_id(row));
        touched.pairs.iter().fold(start, |operation, (column, key, value)| {
            let pair = Datum::map([(key.clone(), value.clone())]);
            operation
                .remove(column, self.named(Datum::set([key.clone()]).to_json()))
                .add(column, self.named(pair.to_json()))
        })
    }

    fn row_id(&self, row: Uuid) -> RowId {
        match self.rows.get(&row) {
            Some(touched) if touched.origin == Origin::New => RowId::name(name_of(row)),
            _ => row.into(),
        }
    }

    /// Replaces the temporary UUIDs of new rows in a value by the names of the rows.
    fn named(&self, value: Json) -> Json {
        let Json::Array(items) = value else { return value };
        let row = match items.as_slice() {
            [Json::String(tag), Json::String(uuid)] if tag == "uuid" => ovsdb::json::parse_uuid(uuid),
            _ => None,
        };
        match row {
            Some(row) => self.row_id(row).to_json(),
            None => Json::Array(items.into_iter().map(|item| self.named(item)).collect()),
        }
    }
}

/// The name of a row within a transaction.
fn name_of(row: Uuid) -> String {
    format!("row{}", row.to_string().replace('-', "_"))
}

fn insert_with_uuid(table: &str, row: Uuid) -> Operation {
    let mut json = Operation::insert(table, "").to_json();
    if let Some(object) = json.as_object_mut() {
        object.insert("uuid".into(), row.to_string().into());
    }
    Operation::from_json(json).unwrap_or_else(|| Operation::insert(table, ""))
}

/// The text for an error reply of the server, in the wording of ovs-vsctl.
pub fn refusal(error: &ovsdb::Error) -> String {
    format!("transaction error: {}", sorted_string(&error.to_json()))
}
