//! Adds, removes and converts databases while the server runs, and maintains `_Server`, which describes them.
//!
//! RFC 7047 has no notification for that. Clients that sent `set_db_change_aware` watch `_Server`, and are
//! notified which of their monitors and transactions were cancelled. Other clients are disconnected, and find
//! the new state when they reconnect.

use crate::batch::Served;
use crate::core::Core;
use crate::file::{DatabaseFile, OpenError};
use crate::server::Server;
use crate::session::SessionId;
use ovsdb::{Database, Error, Json, Message, Operation, Parameters, Schema, Uuid, schema};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use transport::Loss;

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

    /// Starts to rewrite the file of a database; [`Server::take_compacted`] returns the result.
    pub fn compact(&mut self, name: &str) {
        let core = self.core();
        core.answer();
        if let Some(served) = core.databases.get_mut(name) {
            served.compact();
        }
        self.take_output();
    }

    /// The result of a requested compaction, once it has ended.
    pub fn take_compacted(&mut self, name: &str) -> Option<std::io::Result<()>> {
        match self.core().databases.get_mut(name) {
            Some(served) => served.take_compacted(),
            // The database was removed meanwhile.
            None => Some(Ok(())),
        }
    }
}

impl Core {
    fn add_database(&mut self, path: &Path, schema_if_absent: Option<&Schema>) -> Result<String, AddError> {
        let same = |a: &Path| matches!((a.canonicalize(), path.canonicalize()), (Ok(a), Ok(b)) if a == b);
        if self.databases.values().filter_map(Served::path).any(same) {
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
        self.cut_off_unaware(None);
        let mut served = Served::new(db, Some(file));
        served.generation = 1;
        self.databases.insert(name.clone(), served);
        self.describe();
        Ok(name)
    }

    fn remove_database(&mut self, name: &str) -> bool {
        if name.starts_with('_') || !self.databases.contains_key(name) {
            return false;
        }
        self.answer();
        self.cut_off_unaware(None);
        self.cancel_all(name);
        if let Some(gone) = self.databases.remove(name) {
            // The sum of all generations must never return to an earlier value.
            self.bump(gone.generation + 1);
        }
        self.describe();
        true
    }

    /// `convert`: converts the database to the schema in the request.
    pub(crate) fn convert(&mut self, session: SessionId, name: &str, params: &Json) -> Result<Json, Error> {
        self.answer();
        let options = self.sessions.get(&session).map(|s| &s.options);
        if let Some(role) = options.map(|o| &o.role).filter(|role| !role.is_empty()) {
            let text = format!("clients of role \"{role}\" may not convert database {name}");
            return Err(Error::new("permission error", text));
        }
        if options.is_some_and(|o| o.read_only) {
            let text = format!("conversion is not allowed for read-only database {name}");
            return Err(Error::new("not allowed", text));
        }
        let Some([_, wanted]) = params.as_array().map(Vec::as_slice) else {
            return Err(Error::syntax(params, "array expected"));
        };
        let schema = Arc::new(Schema::from_json(wanted)?);
        let Some(served) = self.databases.get_mut(name).filter(|served| !served.is_reserved()) else {
            return Err(Error::new("not allowed", format!("{name} cannot be converted")));
        };
        served.convert(schema)?;
        self.cut_off_unaware(Some(session));
        self.cancel_all(name);
        self.describe();
        Ok(json!({}))
    }

    /// Ends the sessions that would not notice that the databases have changed.
    fn cut_off_unaware(&mut self, except: Option<SessionId>) {
        for (id, session) in &mut self.sessions {
            if !session.change_aware && Some(*id) != except {
                session.end(Loss::Dropped);
            }
        }
    }

    /// Cancels the monitors and waiting transactions of a database, and notifies their sessions.
    fn cancel_all(&mut self, name: &str) {
        for session in self.sessions.values_mut().filter(|s| !s.is_over()) {
            for id in session.leave(name) {
                session.send(&Message::notify("monitor_canceled", json!([id])));
            }
            let of_it = |params: &Parameters| params.database() == Some(name);
            let (gone, rest): (Vec<_>, _) =
                std::mem::take(&mut session.blocked).into_iter().partition(|b| of_it(&b.params));
            session.blocked = rest;
            for blocked in gone {
                session.send(&Message::Error { error: "canceled".into(), id: blocked.id });
            }
        }
    }

    fn bump(&mut self, generations: u64) {
        if let Some(about) = self.databases.get_mut(ABOUT) {
            about.generation += generations;
        }
    }

    /// Creates `_Server`.
    pub(crate) fn add_about(&mut self) {
        let about = Database::new(schema::server(), Uuid::new_v4());
        self.databases.insert(ABOUT.to_owned(), Served::new(about, None));
        self.describe();
    }

    /// Updates `_Server`.
    fn describe(&mut self) {
        let mut wanted: BTreeMap<String, String> =
            self.databases.iter().map(|(name, served)| (name.clone(), schema_text(&served.db))).collect();
        let Some(about) = self.databases.get_mut(ABOUT) else { return };
        let mut operations = Vec::new();
        for row in about.db.rows("Database").into_iter().flat_map(|rows| rows.values()) {
            let text = |column| crate::columns::text(about.db.schema(), "Database", row, column);
            match wanted.remove(text("name").unwrap_or_default()) {
                None => operations.push(Operation::delete("Database", row.uuid())),
                Some(schema) if text("schema") != Some(&schema) => {
                    operations.push(Operation::update("Database", row.uuid()).set("schema", schema));
                }
                Some(_) => {}
            }
        }
        for (name, schema) in wanted {
            let row = Operation::insert("Database", "").set("name", name).set("model", "standalone");
            operations.push(row.set("connected", true).set("leader", true).set("schema", schema));
        }
        // Cannot fail: the schema is built in and fits the rows.
        _ = about.add_own(&operations);
    }
}

/// The database that describes the others.
const ABOUT: &str = "_Server";

fn schema_text(db: &Database) -> String {
    ovsdb::json::sorted_string(&db.schema().to_json())
}
