//! Builds the operations of a transaction, for clients (RFC 7047 section 5.2).
//!
//! ```
//! use ovsdb::{Atom, Datum, Operation, operation::RowId};
//! let port = Operation::insert("Port", "p").set("name", "eth0").set("tag", 7);
//! let bridge = Operation::mutate("Bridge", RowId::from(ovsdb::Uuid::nil())).add("ports", RowId::name("p"));
//! assert_eq!(port.to_json()["uuid-name"], "p");
//! assert_eq!(bridge.to_json()["op"], "mutate");
//! ```

use crate::value::{Atom, Datum};
use serde_json::Value as Json;
use serde_json::{Map, json};
use uuid::Uuid;

/// A reference to an existing row, or by name to a row that the same transaction inserts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowId {
    /// An existing row.
    Uuid(Uuid),
    /// A row that the same transaction inserts with this `uuid-name`.
    Name(String),
}

impl RowId {
    /// A row that the same transaction inserts with `uuid-name` `name`.
    pub fn name(name: impl Into<String>) -> RowId {
        RowId::Name(name.into())
    }

    /// The `<uuid>` or `<named-uuid>` notation.
    pub fn to_json(&self) -> Json {
        match self {
            RowId::Uuid(uuid) => json!(["uuid", uuid.to_string()]),
            RowId::Name(name) => json!(["named-uuid", name]),
        }
    }
}

impl From<Uuid> for RowId {
    fn from(uuid: Uuid) -> RowId {
        RowId::Uuid(uuid)
    }
}

/// A value to write: JSON in the notation of the protocol.
#[derive(Clone, Debug, PartialEq)]
pub struct Value(pub Json);

impl Value {
    /// A set of rows.
    pub fn rows(rows: impl IntoIterator<Item = RowId>) -> Value {
        Value(json!(["set", rows.into_iter().map(|row| row.to_json()).collect::<Vec<_>>()]))
    }

    /// An optional value; `None` is the empty set.
    pub fn optional<T: Into<Value>>(value: Option<T>) -> Value {
        value.map_or_else(|| Value(json!(["set", []])), Into::into)
    }
}

macro_rules! value_from {
    ($($from:ty: $name:ident => $json:expr),* $(,)?) => {
        $(impl From<$from> for Value {
            fn from($name: $from) -> Value {
                Value($json)
            }
        })*
    };
}

value_from! {
    &str: text => text.into(),
    String: text => text.into(),
    i64: number => number.into(),
    bool: truth => truth.into(),
    Datum: datum => datum.to_json(),
    &Datum: datum => datum.to_json(),
    Atom: atom => atom.to_json(),
    Uuid: uuid => RowId::Uuid(uuid).to_json(),
    RowId: row => row.to_json(),
    Json: json => json,
}

/// One operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Operation(Map<String, Json>);

impl Operation {
    fn new(op: &str, rest: Json) -> Operation {
        let mut object = Map::new();
        object.insert("op".into(), op.into());
        if let Json::Object(rest) = rest {
            object.extend(rest);
        }
        Operation(object)
    }

    /// Inserts a row. If `name` is not empty, other operations of the transaction can refer to the row by
    /// this name.
    pub fn insert(table: &str, name: &str) -> Operation {
        let mut operation = Operation::new("insert", json!({"table": table, "row": {}}));
        if !name.is_empty() {
            operation.0.insert("uuid-name".into(), name.into());
        }
        operation
    }

    /// Updates columns of one row.
    pub fn update(table: &str, row: impl Into<RowId>) -> Operation {
        Operation::new("update", json!({"table": table, "where": [uuid_clause(row)], "row": {}}))
    }

    /// Updates columns of every row of a table that meets `condition`.
    pub fn update_where(table: &str, condition: Json) -> Operation {
        Operation::new("update", json!({"table": table, "where": condition, "row": {}}))
    }

    /// Mutates columns of one row.
    pub fn mutate(table: &str, row: impl Into<RowId>) -> Operation {
        Operation::new("mutate", json!({"table": table, "where": [uuid_clause(row)], "mutations": []}))
    }

    /// Deletes one row.
    pub fn delete(table: &str, row: impl Into<RowId>) -> Operation {
        Operation::new("delete", json!({"table": table, "where": [uuid_clause(row)]}))
    }

    /// Deletes every row of a table that meets `condition`.
    pub fn delete_where(table: &str, condition: Json) -> Operation {
        Operation::new("delete", json!({"table": table, "where": condition}))
    }

    /// Reads columns of the rows that meet `condition`.
    pub fn select(table: &str, condition: Json, columns: &[&str]) -> Operation {
        Operation::new("select", json!({"table": table, "where": condition, "columns": columns}))
    }

    /// Makes the transaction fail unless a row still has the values that calls of [`Operation::set`] name.
    pub fn verify(table: &str, row: impl Into<RowId>) -> Operation {
        let rest = json!({"table": table, "where": [uuid_clause(row)], "timeout": 0, "until": "==", "columns": [], "rows": [{}]});
        Operation::new("wait", rest)
    }

    /// Writes a comment to the database file.
    pub fn comment(text: &str) -> Operation {
        Operation::new("comment", json!({"comment": text}))
    }

    /// Makes the transaction fail unless the session owns a lock.
    pub fn assert(lock: &str) -> Operation {
        Operation::new("assert", json!({"lock": lock}))
    }

    /// Makes the whole transaction fail.
    pub fn abort() -> Operation {
        Operation::new("abort", json!({}))
    }

    /// Any operation, as JSON; `None` unless it is an object.
    pub fn from_json(json: Json) -> Option<Operation> {
        match json {
            Json::Object(object) => Some(Operation(object)),
            _ => None,
        }
    }

    /// Sets a column of the row (`insert`, `update`) or expects its value (`verify`).
    #[must_use]
    pub fn set(mut self, column: &str, value: impl Into<Value>) -> Operation {
        if let Some(Json::Array(columns)) = self.0.get_mut("columns") {
            columns.push(column.into());
        }
        let row = match self.0.get_mut("rows") {
            Some(Json::Array(rows)) => rows.first_mut(),
            _ => self.0.get_mut("row"),
        };
        if let Some(Json::Object(row)) = row {
            row.insert(column.into(), value.into().0);
        }
        self
    }

    /// Adds elements or pairs to a column (`mutate`).
    #[must_use]
    pub fn add(self, column: &str, value: impl Into<Value>) -> Operation {
        self.mutation(column, "insert", value)
    }

    /// Removes elements, pairs or keys from a column (`mutate`).
    #[must_use]
    pub fn remove(self, column: &str, value: impl Into<Value>) -> Operation {
        self.mutation(column, "delete", value)
    }

    /// Applies a mutator to a column (`mutate`): `+=`, `-=`, `*=`, `/=`, `%=`, `insert`, `delete`.
    #[must_use]
    pub fn mutation(mut self, column: &str, mutator: &str, value: impl Into<Value>) -> Operation {
        if let Some(Json::Array(mutations)) = self.0.get_mut("mutations") {
            mutations.push(json!([column, mutator, value.into().0]));
        }
        self
    }

    /// The `<operation>` notation.
    pub fn to_json(&self) -> Json {
        Json::Object(self.0.clone())
    }
}

/// The clause `_uuid == row`.
fn uuid_clause(row: impl Into<RowId>) -> Json {
    json!(["_uuid", "==", row.into().to_json()])
}
