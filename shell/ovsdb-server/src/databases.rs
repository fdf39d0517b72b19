//! Adds, removes and converts databases while the server runs, and maintains `_Server`, the database that describes them.
//!
//! RFC 7047 has no notification for such changes. Clients that sent `set_db_change_aware` monitor `_Server`, and are
//! notified which of their monitors and transactions were cancelled. Other clients are disconnected, and see the new
//! state when they reconnect.

use crate::batch::ServedDatabase;
use crate::core::Core;
use crate::file::{DatabaseFile, OpenError};
use crate::server::Server;
use crate::session::SessionId;
use ovsdb::{Database, Error, Json, Message, Operation, Parameters, Schema, Uuid, schema};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use transport::DisconnectReason;

/// Why a database cannot be added.
#[derive(Debug, thiserror::Error)]
pub enum AddError {
    /// The file cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The file is already open in this server.
    #[error("ovsdb error: {0}: already open")]
    AlreadyOpen(PathBuf),
    /// The server already has a database of this name.
    #[error("ovsdb error: {0}: duplicate database name")]
    Duplicate(String),
    /// The name is reserved for the server.
    #[error("ovsdb error: {0}: names beginning with \"_\" are reserved")]
    Reserved(String),
}

impl Server {
    /// Adds the database in a file, which is created with `schema_if_absent` if it is missing. Returns its
    /// name.
    pub fn add_database(
        &mut self,
        path: &Path,
        schema_if_absent: Option<&Schema>,
    ) -> Result<String, AddError> {
        let added = self.core().add_database(path, schema_if_absent);
        self.take_output();
        added
    }

    /// Removes a database; returns false if there is none of this name.
    pub fn remove_database(&mut self, name: &str) -> bool {
        let removed = self.core().remove_database(name);
        self.take_output();
        removed
    }

    /// The names of the databases, including `_Server`, and their files.
    pub fn databases(&mut self) -> BTreeMap<&str, Option<&Path>> {
        self.core().databases.iter().map(|(name, served)| (name.as_str(), served.path())).collect()
    }

    /// Starts to rewrite the file of a database; [`Server::take_compaction_result`] returns the result.
    pub fn compact(&mut self, name: &str) {
        let core = self.core();
        core.store_and_reply();
        if let Some(served) = core.databases.get_mut(name) {
            served.compact();
        }
        self.take_output();
    }

    /// The result of a requested compaction if it has ended; `None`: it is running.
    pub fn take_compaction_result(&mut self, name: &str) -> Option<std::io::Result<()>> {
        match self.core().databases.get_mut(name) {
            Some(served) => served.take_compaction_result(),
            // The database was removed meanwhile.
            None => Some(Ok(())),
        }
    }
}

impl Core {
    fn add_database(&mut self, path: &Path, schema_if_absent: Option<&Schema>) -> Result<String, AddError> {
        let same = |a: &Path| matches!((a.canonicalize(), path.canonicalize()), (Ok(a), Ok(b)) if a == b);
        if self.databases.values().filter_map(ServedDatabase::path).any(same) {
            return Err(AddError::AlreadyOpen(path.to_owned()));
        }
        let (file, db) = DatabaseFile::open(path, schema_if_absent)?;
        let name = db.schema().name.clone();
        if name.starts_with('_') {
            return Err(AddError::Reserved(name));
        }
        if self.databases.contains_key(&name) {
            return Err(AddError::Duplicate(name));
        }
        self.disconnect_unaware(None);
        let mut served = ServedDatabase::new(db, Some(file));
        served.generation = 1;
        self.databases.insert(name.clone(), served);
        self.update_server_database();
        Ok(name)
    }

    fn remove_database(&mut self, name: &str) -> bool {
        if name.starts_with('_') || !self.databases.contains_key(name) {
            return false;
        }
        self.store_and_reply();
        self.disconnect_unaware(None);
        self.cancel_requests_of(name);
        if let Some(gone) = self.databases.remove(name) {
            // The sum of all generations must never return to an earlier value: a change of the settings would be missed.
            self.add_generations(gone.generation + 1);
        }
        self.update_server_database();
        true
    }

    /// `convert`: converts the database to the schema in the request.
    pub(crate) fn convert(&mut self, session: SessionId, name: &str, params: &Json) -> Result<Json, Error> {
        self.store_and_reply();
        let options = self.sessions.get(&session).map(|s| &s.options);
        if let Some(role) = options.map(|o| &o.role).filter(|role| !role.is_empty()) {
            let text = format!("clients of role \"{role}\" may not convert database {name}");
            return Err(Error::new("permission error", text));
        }
        if options.is_some_and(|o| o.read_only) {
            let text = format!("conversion is not allowed for read-only database {name}");
            return Err(Error::new("not allowed", text));
        }
        let Some([_, requested]) = params.as_array().map(Vec::as_slice) else {
            return Err(Error::syntax(params, "array expected"));
        };
        let schema = Arc::new(Schema::from_json(requested)?);
        let Some(served) = self.databases.get_mut(name).filter(|served| !served.is_reserved()) else {
            return Err(Error::new("not allowed", format!("{name} cannot be converted")));
        };
        served.convert(schema)?;
        self.disconnect_unaware(Some(session));
        self.cancel_requests_of(name);
        self.update_server_database();
        Ok(json!({}))
    }

    /// Disconnects the clients that would not notice that the databases have changed.
    fn disconnect_unaware(&mut self, except: Option<SessionId>) {
        for (id, session) in &mut self.sessions {
            if !session.change_aware && Some(*id) != except {
                session.end(DisconnectReason::Dropped);
            }
        }
    }

    /// Cancels the monitors and blocked transactions of a database, and notifies their clients.
    fn cancel_requests_of(&mut self, name: &str) {
        for session in self.sessions.values_mut().filter(|s| !s.is_over()) {
            for id in session.remove_monitors_of(name) {
                session.send(&Message::notify("monitor_canceled", json!([id])));
            }
            let of_it = |params: &Parameters| params.database() == Some(name);
            let (gone, rest) =
                std::mem::take(&mut session.blocked).into_iter().partition(|(_, b)| of_it(&b.request.params));
            session.blocked = rest;
            for blocked in BTreeMap::into_values(gone) {
                session.send(&Message::Error { error: "canceled".into(), id: blocked.request.id });
            }
        }
    }

    /// Increases the sum of all generations.
    fn add_generations(&mut self, generations: u64) {
        if let Some(server_database) = self.databases.get_mut(SERVER_DATABASE) {
            server_database.generation += generations;
        }
    }

    /// Creates `_Server`.
    pub(crate) fn add_server_database(&mut self) {
        let server_database = Database::new(schema::server(), Uuid::new_v4());
        self.databases.insert(SERVER_DATABASE.to_owned(), ServedDatabase::new(server_database, None));
        self.update_server_database();
    }

    /// Updates the rows of `_Server`.
    fn update_server_database(&mut self) {
        let mut schemas: BTreeMap<String, String> =
            self.databases.iter().map(|(name, served)| (name.clone(), schema_text(&served.db))).collect();
        let Some(server_database) = self.databases.get_mut(SERVER_DATABASE) else { return };
        let mut operations = Vec::new();
        for row in server_database.db.rows("Database").into_iter().flat_map(|rows| rows.values()) {
            let text = |column| crate::columns::text(server_database.db.schema(), "Database", row, column);
            match schemas.remove(text("name").unwrap_or_default()) {
                None => operations.push(Operation::delete("Database", row.uuid())),
                Some(schema) if text("schema") != Some(&schema) => {
                    operations.push(Operation::update("Database", row.uuid()).set("schema", schema));
                }
                Some(_) => {}
            }
        }
        for (name, schema) in schemas {
            let row = Operation::insert("Database", "").set("name", name).set("model", "standalone");
            operations.push(row.set("connected", true).set("leader", true).set("schema", schema));
        }
        // This cannot fail: the schema is built in, and the rows fit it.
        _ = server_database.add_server_transaction(&operations);
    }
}

/// Name of the database that describes the others.
const SERVER_DATABASE: &str = "_Server";

fn schema_text(db: &Database) -> String {
    ovsdb::json::sorted_string(&db.schema().to_json())
}
