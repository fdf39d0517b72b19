//! Database schemas (RFC 7047 section 3.2).
//!
//! Every table has `_uuid` and `_version` as columns 0 and 1, so that conditions and selections need no
//! special case; the schema's JSON does not contain them.

use crate::Error;
use crate::json::{as_integer, is_id};
use crate::members::{Kinds, Members};
use crate::types::{AtomicType, Type};
use crate::value::Datum;
use serde_json::Map;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

/// Index of the `_uuid` column in every table.
pub const UUID_COLUMN: usize = 0;
/// Index of the `_version` column in every table.
pub const VERSION_COLUMN: usize = 1;
/// Index of the first column that the schema's JSON defines.
pub const FIRST_COLUMN: usize = 2;

/// A database schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    /// The database's name.
    pub name: String,
    /// `x.y.z`, or empty.
    pub version: String,
    /// Checksum of the schema, or any other text that identifies its revision.
    pub cksum: String,
    /// Tables, sorted by name.
    pub tables: Vec<TableSchema>,
    by_name: BTreeMap<String, usize>,
}

/// One table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSchema {
    /// The table's name.
    pub name: String,
    /// `_uuid`, `_version`, then the other columns sorted by name.
    pub columns: Vec<Column>,
    by_name: BTreeMap<String, usize>,
    /// Whether rows stay in the table without strong references to them.
    pub is_root: bool,
    /// `isRoot` of the schema's JSON.
    declared_root: bool,
    /// Maximum number of rows; `u32::MAX` is unlimited.
    pub max_rows: u32,
    /// The columns of each index: no two rows may have the same values in all columns of an index.
    pub indexes: Vec<Vec<usize>>,
}

/// One column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// The column's name.
    pub name: String,
    /// The column's type.
    pub ty: Type,
    /// Whether the value may change after the row was inserted.
    pub mutable: bool,
    /// Whether the value is stored in the file and survives a restart of the server.
    pub persistent: bool,
    /// The default value. All rows that do not set the column share it, which saves memory: a row of table Interface has
    /// 30 such columns.
    pub(crate) default: Arc<Datum>,
}

/// The Open_vSwitch schema, for databases that this program creates.
pub fn open_vswitch() -> Arc<Schema> {
    static SCHEMA: LazyLock<Arc<Schema>> =
        LazyLock::new(|| built_in(include_str!("../schema/open_vswitch.json")));
    SCHEMA.clone()
}

/// The schema of `_Server`, in which a server describes its databases.
pub fn server() -> Arc<Schema> {
    static SCHEMA: LazyLock<Arc<Schema>> = LazyLock::new(|| built_in(include_str!("../schema/server.json")));
    SCHEMA.clone()
}

fn built_in(text: &str) -> Arc<Schema> {
    let json = serde_json::from_str(text).unwrap_or(Json::Null);
    // The text is built in, and a test parses it.
    Arc::new(Schema::from_json(&json).expect("built-in schema"))
}

impl Schema {
    /// Reads a `<database-schema>`.
    pub fn from_json(json: &Json) -> Result<Schema, Error> {
        let mut members = Members::new(json, "database schema");
        let name = members.required("name", Kinds::ID);
        let version = members.optional("version", Kinds::STRING);
        let cksum = members.optional("cksum", Kinds::STRING);
        let tables = members.required("tables", Kinds::OBJECT);
        members.finish()?;
        let text = |json: Option<&Json>| json.and_then(Json::as_str).unwrap_or_default().to_owned();
        let version = text(version);
        if !version.is_empty() && !is_version(&version) {
            return Err(Error::syntax(json, format!("schema version \"{version}\" not in format x.y.z")));
        }
        let mut schema = Schema {
            name: text(name),
            version,
            cksum: text(cksum),
            tables: Vec::new(),
            by_name: BTreeMap::new(),
        };
        for (name, table) in sorted(tables) {
            check_name(name, json)?;
            schema.by_name.insert(name.clone(), schema.tables.len());
            schema.tables.push(TableSchema::from_json(name, table)?);
        }
        schema.resolve()?;
        Ok(schema)
    }

    /// Resolves references to tables. If no table is declared a root, all tables are roots.
    fn resolve(&mut self) -> Result<(), Error> {
        let all_roots = !self.tables.iter().any(|t| t.declared_root);
        let by_name = &self.by_name;
        for table in &mut self.tables {
            table.is_root = table.declared_root || all_roots;
            for column in &mut table.columns {
                let name = column.name.clone();
                for (place, to) in column.ty.references_mut().enumerate() {
                    let Some(&index) = by_name.get(&to.table) else {
                        let side = if place == 0 { "key" } else { "value" };
                        let text = format!("column {name} {side} refers to undefined table {}", to.table);
                        return Err(Error::bare_syntax(text));
                    };
                    to.index = index;
                }
            }
        }
        Ok(())
    }

    /// The index of a table.
    pub fn table_index(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// A table by name.
    pub fn table(&self, name: &str) -> Option<&TableSchema> {
        self.tables.get(self.table_index(name)?)
    }

    /// The `<database-schema>` notation.
    pub fn to_json(&self) -> Json {
        let mut object = Map::new();
        object.insert("name".into(), self.name.as_str().into());
        if !self.version.is_empty() {
            object.insert("version".into(), self.version.as_str().into());
        }
        if !self.cksum.is_empty() {
            object.insert("cksum".into(), self.cksum.as_str().into());
        }
        let tables = self.tables.iter().map(|t| (t.name.clone(), t.to_json())).collect();
        object.insert("tables".into(), Json::Object(tables));
        Json::Object(object)
    }
}

impl TableSchema {
    fn from_json(name: &str, json: &Json) -> Result<TableSchema, Error> {
        let mut members = Members::new(json, format!("table schema for table {name}"));
        let columns = members.required("columns", Kinds::OBJECT);
        let max_rows = members.optional("maxRows", Kinds::INTEGER);
        let is_root = members.optional("isRoot", Kinds::BOOLEAN);
        let indexes = members.optional("indexes", Kinds::ARRAY);
        members.finish()?;
        let max_rows = match max_rows.and_then(as_integer) {
            None => u32::MAX,
            Some(n) if n > 0 => u32::try_from(n).unwrap_or(u32::MAX),
            Some(_) => return Err(Error::syntax(json, "maxRows must be at least 1")),
        };
        let uuid = || Type::scalar(AtomicType::Uuid);
        let built_in = |name: &str| Column {
            default: Arc::new(Datum::default_of(&uuid())),
            name: name.into(),
            ty: uuid(),
            mutable: false,
            persistent: name == "_uuid",
        };
        let mut table = TableSchema {
            name: name.to_owned(),
            columns: vec![built_in("_uuid"), built_in("_version")],
            by_name: BTreeMap::new(),
            is_root: false,
            declared_root: is_root.and_then(Json::as_bool).unwrap_or(false),
            max_rows,
            indexes: Vec::new(),
        };
        for (name, column) in sorted(columns) {
            check_name(name, json)?;
            table.columns.push(Column::from_json(name, column)?);
        }
        if table.columns.len() == FIRST_COLUMN {
            return Err(Error::syntax(json, "table must have at least one column"));
        }
        table.by_name = table.columns.iter().enumerate().map(|(i, c)| (c.name.clone(), i)).collect();
        for index in indexes.and_then(Json::as_array).into_iter().flatten() {
            table.indexes.push(table.index_columns(index, json)?);
        }
        Ok(table)
    }

    fn index_columns(&self, index: &Json, json: &Json) -> Result<Vec<usize>, Error> {
        let columns = self.column_set(Some(index))?;
        if columns.is_empty() {
            return Err(Error::syntax(json, "index must have at least one column"));
        }
        match columns.iter().find(|&&c| !self.columns[c].persistent) {
            None => Ok(columns),
            Some(&c) => {
                let text = format!("ephemeral columns (such as {}) may not be indexed", self.columns[c].name);
                Err(Error::syntax(json, text))
            }
        }
    }

    /// Parses an array of distinct column names; `None`: all columns.
    pub fn column_set(&self, json: Option<&Json>) -> Result<Vec<usize>, Error> {
        let Some(json) = json else {
            return Ok((0..self.columns.len()).collect());
        };
        let distinct = || Error::syntax(json, "array of distinct column names expected");
        let mut columns = Vec::new();
        for item in json.as_array().ok_or_else(distinct)? {
            let name = item.as_str().ok_or_else(distinct)?;
            let index = self
                .column_index(name)
                .ok_or_else(|| Error::syntax(json, format!("{name} is not a valid column name")))?;
            if columns.contains(&index) {
                return Err(distinct());
            }
            columns.push(index);
        }
        Ok(columns)
    }

    /// The index of a column.
    pub fn column_index(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// A column by name.
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.get(self.column_index(name)?)
    }

    fn to_json(&self) -> Json {
        let mut object = Map::new();
        let columns = self.columns.iter().skip(FIRST_COLUMN).map(|c| (c.name.clone(), c.to_json())).collect();
        object.insert("columns".into(), Json::Object(columns));
        if self.declared_root {
            object.insert("isRoot".into(), true.into());
        }
        if self.max_rows != u32::MAX {
            object.insert("maxRows".into(), self.max_rows.into());
        }
        if !self.indexes.is_empty() {
            let name = |&c: &usize| Json::from(self.columns[c].name.as_str());
            let indexes = self.indexes.iter().map(|i| Json::Array(i.iter().map(name).collect()));
            object.insert("indexes".into(), Json::Array(indexes.collect()));
        }
        Json::Object(object)
    }
}

impl Column {
    fn from_json(name: &str, json: &Json) -> Result<Column, Error> {
        let mut members = Members::new(json, format!("schema for column {name}"));
        let mutable = members.optional("mutable", Kinds::BOOLEAN).and_then(Json::as_bool);
        let ephemeral = members.optional("ephemeral", Kinds::BOOLEAN).and_then(Json::as_bool);
        let ty = members.required("type", Kinds::STRING.or(Kinds::OBJECT));
        members.finish()?;
        let ty = Type::from_json(ty.unwrap_or(&Json::Null))?;
        // A column of weak references is always mutable, because deleting a referenced row changes its value.
        let weak = ty.references().any(|(_, to)| !to.strong);
        Ok(Column {
            default: Arc::new(Datum::default_of(&ty)),
            name: name.to_owned(),
            ty,
            mutable: mutable.unwrap_or(true) || weak,
            persistent: !ephemeral.unwrap_or(false),
        })
    }

    fn to_json(&self) -> Json {
        let mut object = Map::new();
        object.insert("type".into(), self.ty.to_json());
        if !self.mutable {
            object.insert("mutable".into(), false.into());
        }
        if !self.persistent {
            object.insert("ephemeral".into(), true.into());
        }
        Json::Object(object)
    }
}

fn sorted(object: Option<&Json>) -> BTreeMap<&String, &Json> {
    object.and_then(Json::as_object).into_iter().flatten().collect()
}

fn check_name(name: &str, json: &Json) -> Result<(), Error> {
    if name.starts_with('_') {
        Err(Error::syntax(json, "names beginning with \"_\" are reserved"))
    } else if !is_id(name) {
        Err(Error::syntax(json, "name must be a valid id"))
    } else {
        Ok(())
    }
}

fn is_version(text: &str) -> bool {
    let parts: Vec<_> = text.split('.').collect();
    parts.len() == 3 && parts.iter().all(|p| !p.is_empty() && p.bytes().all(|c| c.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::sorted_string;

    #[test]
    fn open_vswitch_is_complete_and_survives_a_round_trip() {
        let schema = open_vswitch();
        assert_eq!((schema.version.as_str(), schema.tables.len()), ("8.8.0", 19));
        let columns: usize = schema.tables.iter().map(|t| t.columns.len() - FIRST_COLUMN).sum();
        assert_eq!(columns, 190);
        let json = schema.to_json();
        assert_eq!(*schema, Schema::from_json(&json).unwrap());
        assert!(schema.table("Bridge").is_some_and(|t| !t.is_root && t.indexes.len() == 1));
        assert_eq!(schema.table("Open_vSwitch").map(|t| t.max_rows), Some(1));
        assert!(!schema.table("Interface").and_then(|t| t.column("statistics")).unwrap().persistent);
    }

    #[test]
    fn server_schema_reads() {
        assert_eq!(server().name, "_Server");
    }

    #[test]
    fn faults_are_named() {
        let fault = |json: Json| Schema::from_json(&json).unwrap_err().details.unwrap_or_default();
        let with =
            |column: Json| serde_json::json!({"name": "x", "tables": {"t": {"columns": {"c": column}}}});
        assert!(
            fault(with(serde_json::json!({"type": {"key": {"type": "uuid", "refTable": "no"}}})))
                .contains("undefined table no")
        );
        assert!(
            fault(with(serde_json::json!({"type": {"key": "integer", "min": 2, "max": 3}})))
                .contains("constraint checks")
        );
        assert!(fault(with(serde_json::json!({"type": "integer", "x": 1}))).contains("'x'"));
        assert!(sorted_string(&with(Json::Null)).contains("null"));
    }
}
