//! Role-based access control, configured by the tables `RBAC_Role` and `RBAC_Permission` of the database
//! itself.
//!
//! A role has a permission for each table. A permission states which columns authorize a client for a row
//! (`authorization`: the client is authorized if the value of one of these columns equals the common name of its
//! certificate; the name `""` authorizes every client for all rows), whether rows may be inserted and deleted, and
//! which columns may be changed. If the database does not have these tables or the client has no role, everything is
//! permitted. A client with a role but without a certificate may change nothing.
//!
//! Source: ovsdb(7) and ovn-sb(5), "RBAC_Role" and "RBAC_Permission".

use crate::Error;
use crate::database::Row;
use crate::integrity::Draft;
use crate::schema::TableSchema;
use crate::value::{Atom, Datum};
use std::sync::Arc;
use uuid::Uuid;

/// The client that requests a transaction.
#[derive(Clone, Copy, Debug, Default)]
pub struct Client<'a> {
    /// The client's role; empty: none.
    pub role: &'a str,
    /// Common name of the client's certificate.
    pub id: Option<&'a str>,
}

/// The permissions of a client for one table.
pub(crate) enum Rule<'a> {
    /// Everything is permitted.
    Allowed,
    /// Nothing is permitted.
    Denied,
    /// According to a row of `RBAC_Permission`.
    Permission { row: Arc<Row>, schema: &'a TableSchema, id: &'a str },
}

impl<'a> Rule<'a> {
    /// Looks up the rule for a table.
    pub fn of(draft: &Draft<'a>, table: &TableSchema, client: Client<'a>) -> Rule<'a> {
        let (Some(roles), false) = (draft.schema.table_index("RBAC_Role"), client.role.is_empty()) else {
            return Rule::Allowed;
        };
        let found = || {
            let schema = &draft.schema.tables[roles];
            let named = |row: &&Arc<Row>| {
                column(schema, row, "name").and_then(Datum::first).and_then(Atom::as_str) == Some(client.role)
            };
            let role = draft.tables[roles].rows.values().find(named)?;
            let permission = permission_for(column(schema, role, "permissions")?, &table.name)?;
            let table_index = draft.schema.table_index("RBAC_Permission")?;
            let row = draft.get((table_index, permission))?.clone();
            Some(Rule::Permission { row, schema: &draft.schema.tables[table_index], id: client.id? })
        };
        found().unwrap_or(Rule::Denied)
    }

    /// Whether the row may be inserted or deleted.
    pub fn may_insert_or_delete(&self, table: &TableSchema, row: &Row) -> bool {
        let allowed = || {
            self.permission_column("insert_delete").and_then(Datum::first).and_then(Atom::as_bool)
                == Some(true)
        };
        self.is_allowed() || self.is_authorized(table, row) && allowed()
    }

    /// Whether the columns of the row may be changed.
    pub fn may_modify(
        &self,
        table: &TableSchema,
        row: &Row,
        mut columns: impl Iterator<Item = usize>,
    ) -> bool {
        let listed = |column: usize| {
            let name = table.columns[column].name.as_str();
            self.permission_column("update")
                .is_some_and(|names| names.keys().any(|n| n.as_str() == Some(name)))
        };
        self.is_allowed() || self.is_authorized(table, row) && columns.all(listed)
    }

    fn is_allowed(&self) -> bool {
        matches!(self, Rule::Allowed)
    }

    fn permission_column(&self, name: &str) -> Option<&Datum> {
        match self {
            Rule::Permission { row, schema, .. } => column(schema, row, name),
            _ => None,
        }
    }

    /// Whether the client is authorized for the row.
    fn is_authorized(&self, table: &TableSchema, row: &Row) -> bool {
        let Rule::Permission { id, .. } = self else { return false };
        let is_named_by = |name: &str| match name.split_once(':') {
            _ if name.is_empty() => true,
            Some((map, key)) => column(table, row, map).and_then(|map| map.get_str(key)) == Some(*id),
            None => column(table, row, name).and_then(Datum::first).and_then(Atom::as_str) == Some(*id),
        };
        self.permission_column("authorization")
            .is_some_and(|names| names.keys().filter_map(Atom::as_str).any(is_named_by))
    }
}

/// The error for a denied operation; `what` is e.g. "row deletion from".
pub(crate) fn refusal(client: Client<'_>, what: &str, table: &TableSchema) -> Error {
    let id = client.id.unwrap_or("(null)");
    let text = format!(
        "RBAC rules for client \"{id}\" role \"{}\" prohibit {what} table \"{}\".",
        client.role, table.name
    );
    Error::new("permission error", text)
}

fn column<'r>(table: &TableSchema, row: &'r Row, name: &str) -> Option<&'r Datum> {
    Some(row.field(table.column_index(name)?))
}

fn permission_for(permissions: &Datum, table: &str) -> Option<Uuid> {
    let Datum::Map(pairs) = permissions else { return None };
    pairs.iter().find(|(name, _)| name.as_str() == Some(table)).and_then(|(_, row)| row.as_uuid())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Schema;
    use crate::database::Database;
    use crate::transaction::{Context, Outcome, execute};
    use serde_json::Value as Json;
    use serde_json::json;

    fn database() -> Database {
        let set = |key: &str| json!({"type": {"key": key, "min": 0, "max": "unlimited"}});
        let map = json!({"type": {"key": "string", "value": {"type": "uuid", "refTable": "RBAC_Permission"}, "min": 0, "max": "unlimited"}});
        let string = json!({"type": "string"});
        let schema = json!({"name": "d", "tables": {
            "RBAC_Role": {"isRoot": true, "columns": {"name": string, "permissions": map}},
            "RBAC_Permission": {"isRoot": true, "columns": {
                "table": string, "authorization": set("string"), "insert_delete": {"type": "boolean"}, "update": set("string")}},
            "t": {"isRoot": true, "columns": {"owner": string, "a": string, "b": string}}}});
        let db = Database::new(Arc::new(Schema::from_json(&schema).unwrap()), Uuid::nil());
        let permission = json!({"op": "insert", "table": "RBAC_Permission", "uuid-name": "p", "row":
            {"table": "t", "authorization": "owner", "insert_delete": true, "update": "a"}});
        let role = json!({"op": "insert", "table": "RBAC_Role", "row":
            {"name": "r", "permissions": ["map", [["t", ["named-uuid", "p"]]]]}});
        run(db, Client::default(), json!(["d", permission, role])).0
    }

    fn run(mut db: Database, client: Client<'_>, params: Json) -> (Database, Json) {
        let context = Context { owns_lock: &|_| true, client, ..Context::default() };
        match execute(&db, &crate::Parameters::Tree(params), &context, &mut Uuid::new_v4) {
            Outcome::Ready(prepared) => {
                let results = Json::Array(prepared.results);
                db.apply(prepared.commit, Uuid::new_v4());
                (db, results)
            }
            Outcome::Failed(results) => (db, Json::Array(results)),
            Outcome::Blocked { .. } => panic!("blocked"),
        }
    }

    #[test]
    fn rows_are_authorized_by_common_name() {
        let own = Client { role: "r", id: Some("me") };
        let insert = |owner: &str| json!(["d", {"op": "insert", "table": "t", "row": {"owner": owner}}]);
        let set =
            |column: &str| json!(["d", {"op": "update", "table": "t", "where": [], "row": {column: "x"}}]);
        let delete = json!(["d", {"op": "delete", "table": "t", "where": []}]);
        let refused = |(db, results): (Database, Json)| (results[0]["error"] == "permission error", db);
        let db = database();
        let (no, db) = refused(run(db, own, insert("you")));
        assert!(no);
        let (no, db) = refused(run(db, own, insert("me")));
        assert!(!no);
        let (no, db) = refused(run(db, own, set("a")));
        assert!(!no);
        let (no, db) = refused(run(db, own, set("b")));
        assert!(no);
        for stranger in [Client { role: "r", id: None }, Client { role: "q", id: Some("me") }] {
            assert!(refused(run(db.clone(), stranger, delete.clone())).0);
        }
        assert!(!refused(run(db.clone(), Client::default(), set("b"))).0);
        assert!(!refused(run(db, own, delete)).0);
    }
}
