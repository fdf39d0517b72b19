//! Selects a cluster's leader by the columns `connected` and `leader` of `_Server`.

use serde_json::{Value as Json, json};

/// The ID of the monitor of the server's role.
pub(super) const ID: &str = "role";

/// The request for this monitor.
pub(super) fn request() -> Json {
    let columns = json!({"Database": [{"columns": ["name", "model", "connected", "leader"]}]});
    json!(["_Server", ID, columns])
}

/// An error when this server will not do for the database.
pub(super) fn check(database: &str, updates: Option<&Json>) -> Result<(), &'static str> {
    let rows = updates.and_then(|tables| tables.get("Database")).and_then(Json::as_object);
    let told = rows.into_iter().flat_map(|rows| rows.values()).filter_map(|row| row.get("new"));
    let is = |row: &Json, column: &str| row.get(column).and_then(Json::as_bool).unwrap_or(false);
    let ours = |row: &&Json| row.get("name").and_then(Json::as_str) == Some(database);
    for row in told.filter(ours) {
        if row.get("model").and_then(Json::as_str) != Some("clustered") {
            continue;
        }
        if !is(row, "connected") {
            return Err("clustered database server is disconnected from cluster; trying another server");
        }
        if !is(row, "leader") {
            return Err("clustered database server is not cluster leader; trying another server");
        }
    }
    Ok(())
}
