//! Selects a cluster's leader by the columns `connected` and `leader` of `_Server`.

use super::{Asked, ProtocolError, Replica};
use crate::Json;
use serde_json::json;

/// The id of this monitor.
pub(super) const ROLE: &str = "role";

impl Replica {
    /// Monitors `_Server`.
    pub(super) fn ask_role(&mut self) {
        let columns = json!({"Database": [{"columns": ["name", "model", "connected", "leader"]}]});
        self.ask(Asked::Role, "monitor", json!(["_Server", ROLE, columns]));
    }

    /// Returns an error if this server is not acceptable; the owner of the connection then tries another.
    pub(super) fn check_role(&self, updates: Option<&Json>) -> Result<(), ProtocolError> {
        let rows = updates.and_then(|tables| tables.get("Database")).and_then(Json::as_object);
        let told = rows.into_iter().flat_map(|rows| rows.values()).filter_map(|row| row.get("new"));
        let is = |row: &Json, column: &str| row.get(column).and_then(Json::as_bool).unwrap_or(false);
        let ours = |row: &&Json| row.get("name").and_then(Json::as_str) == Some(&self.config.database);
        for row in told.filter(ours) {
            if row.get("model").and_then(Json::as_str) != Some("clustered") {
                continue;
            }
            if !is(row, "connected") {
                let text = "clustered database server is disconnected from cluster; trying another server";
                return Err(ProtocolError(text.into()));
            }
            if !is(row, "leader") {
                let text = "clustered database server is not cluster leader; trying another server";
                return Err(ProtocolError(text.into()));
            }
        }
        Ok(())
    }
}
