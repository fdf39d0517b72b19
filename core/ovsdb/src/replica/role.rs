//! Checks whether a server is the leader of its cluster: reads columns `connected` and `leader` of database
//! `_Server`.

use serde_json::{Value as Json, json};

/// The ID of the monitor for the server's role.
pub(super) const ID: &str = "role";

/// The parameters of the request that creates the monitor.
pub(super) fn request() -> Json {
    let columns = json!({"Database": [{"columns": ["name", "model", "connected", "leader"]}]});
    json!(["_Server", ID, columns])
}

/// An error if the server is a member of a cluster, but is disconnected or not the leader. `updates`: updates of the
/// monitor.
pub(super) fn check(database: &str, updates: Option<&Json>) -> Result<(), &'static str> {
    let rows = updates.and_then(|tables| tables.get("Database")).and_then(Json::as_object);
    let rows_sent = rows.into_iter().flat_map(|rows| rows.values()).filter_map(|row| row.get("new"));
    let is = |row: &Json, column: &str| row.get(column).and_then(Json::as_bool).unwrap_or(false);
    let ours = |row: &&Json| row.get("name").and_then(Json::as_str) == Some(database);
    for row in rows_sent.filter(ours) {
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
