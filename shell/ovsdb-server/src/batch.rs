//! One served database, and its executed transactions that are not stored yet.
//!
//! Transactions that arrive together are stored with one write and one sync: they are executed one after
//! another in memory, and are answered and sent to monitors only after all of them are stored. If storing
//! fails, memory is reset to the state before the batch.

use crate::file::{DatabaseFile, now_ms};
use crate::identity;
use crate::session::SessionId;
use ovsdb::{
    Changes, Commit, Database, Error, Json, Operation, Prepared, Schema, Uuid, convert, log, transaction,
};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// An executed transaction that is not stored yet.
pub struct Pending {
    /// The session, and the ID of the request; `None` for a transaction of the server itself.
    pub asked: Option<(SessionId, Json)>,
    /// The results for the reply.
    pub results: Vec<Json>,
    /// Its ID and its changes; `None` if it failed.
    pub changes: Option<(Uuid, Arc<Changes>)>,
}

/// The state of a requested compaction.
#[derive(Default)]
enum Compacted {
    #[default]
    NotAsked,
    Awaited,
    Done(io::Result<()>),
}

/// A database, its file, and the current batch.
pub struct Served {
    pub db: Database,
    /// `None` for databases in memory only.
    file: Option<DatabaseFile>,
    before_batch: Option<Database>,
    records: Vec<u8>,
    /// Whether a transaction of the batch must be on disk when it is answered.
    durable: bool,
    pending: Vec<Pending>,
    compacted: Compacted,
    /// Number of stored changes, so that waiting transactions are retried after a change.
    pub generation: u64,
}

impl Served {
    /// Serves `db` from `file`.
    pub fn new(db: Database, file: Option<DatabaseFile>) -> Served {
        Served {
            db,
            file,
            before_batch: None,
            records: Vec::new(),
            durable: false,
            pending: Vec::new(),
            compacted: Compacted::NotAsked,
            generation: 0,
        }
    }

    /// Returns whether the database describes the server itself.
    pub fn is_reserved(&self) -> bool {
        self.db.schema().name.starts_with('_')
    }

    /// The path of its file.
    pub fn path(&self) -> Option<&Path> {
        self.file.as_ref().map(DatabaseFile::path)
    }

    /// Starts to rewrite the file; [`Served::take_compacted`] returns the result. No transaction may be
    /// pending.
    pub fn compact(&mut self) {
        let begun = self.file.as_mut().map_or(Ok(()), |file| file.begin_rewriting(&self.db));
        let Err(error) = begun else {
            self.compacted = if self.is_compacting() { Compacted::Awaited } else { Compacted::Done(Ok(())) };
            return;
        };
        self.compacted = Compacted::Done(Err(error));
    }

    /// Returns whether the file is being rewritten.
    pub fn is_compacting(&self) -> bool {
        self.file.as_ref().is_some_and(DatabaseFile::is_rewriting)
    }

    /// Returns whether a new file is complete. Replacing the old one may wait for the disk.
    pub fn is_compacted(&self) -> bool {
        self.file.as_ref().is_some_and(DatabaseFile::is_rewritten)
    }

    /// Replaces the old file if the new one is complete.
    pub fn progress(&mut self) {
        if let Some(done) = self.file.as_mut().and_then(DatabaseFile::progress)
            && matches!(self.compacted, Compacted::Awaited)
        {
            self.compacted = Compacted::Done(done);
        }
    }

    /// The result of the requested compaction, once it has ended; returned once.
    pub fn take_compacted(&mut self) -> Option<io::Result<()>> {
        // A conversion rewrites the file, too, and thereby ends a compaction.
        if matches!(self.compacted, Compacted::Awaited) && !self.is_compacting() {
            self.compacted = Compacted::Done(Ok(()));
        }
        match std::mem::take(&mut self.compacted) {
            Compacted::Done(result) => Some(result),
            // The result has already been returned to another request.
            Compacted::NotAsked => Some(Ok(())),
            Compacted::Awaited => {
                self.compacted = Compacted::Awaited;
                None
            }
        }
    }

    /// Converts the database to another schema, in the file and in memory; on failure both are unchanged. No
    /// transaction may be pending.
    pub fn convert(&mut self, schema: Arc<Schema>) -> Result<(), Error> {
        let converted = convert::convert(&self.db, schema, &mut identity::fresh)?;
        if let Some(file) = &mut self.file {
            file.rewrite(&converted)
                .map_err(|cause| Error::io("schema could not be stored", runtime::error_text(&cause)))?;
        }
        self.db = converted;
        self.generation += 1;
        Ok(())
    }

    /// Adds a failed transaction, so that its reply keeps its place among the others.
    pub fn add_failed(&mut self, session: SessionId, id: Json, results: Vec<Json>) {
        self.pending.push(Pending { asked: Some((session, id)), results, changes: None });
    }

    /// Adds a transaction that can commit.
    pub fn add(&mut self, session: SessionId, id: Json, prepared: Prepared) {
        let Prepared { results, commit, comment, durable } = prepared;
        self.durable |= durable;
        if commit.changes.is_empty() {
            return self.add_failed(session, id, results);
        }
        self.execute(Some((session, id)), results, commit, &comment);
    }

    /// Adds a transaction of the server itself. An error is a bug of the server.
    pub fn add_own(&mut self, operations: &[Operation]) -> Result<(), Error> {
        let commit = transaction::apply_own(&self.db, operations, &mut identity::fresh)?;
        if !commit.changes.is_empty() {
            self.execute(None, Vec::new(), commit, "");
        }
        Ok(())
    }

    fn execute(
        &mut self,
        asked: Option<(SessionId, Json)>,
        results: Vec<Json>,
        commit: Commit,
        comment: &str,
    ) {
        let changes = commit.changes.clone();
        if let Some(body) = log::transaction_text(self.db.schema(), &changes, now_ms(), comment) {
            self.records.extend(log::record_of(&body));
        }
        self.before_batch.get_or_insert_with(|| self.db.checkpoint());
        let transaction = identity::fresh();
        self.db.apply(commit, transaction);
        self.pending.push(Pending { asked, results, changes: Some((transaction, changes)) });
    }

    /// Returns whether transactions wait to be stored.
    pub fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Stores the batch and returns its transactions, which may then be answered.
    pub fn store(&mut self) -> Vec<Pending> {
        let mut pending = std::mem::take(&mut self.pending);
        let records = std::mem::take(&mut self.records);
        let before = self.before_batch.take();
        let durable = std::mem::take(&mut self.durable);
        let stored = match &mut self.file {
            Some(file) if !records.is_empty() => {
                file.append(&records, durable, before.as_ref().unwrap_or(&self.db))
            }
            _ => Ok(()),
        };
        match stored {
            Ok(()) if before.is_some() => {
                self.generation += 1;
                if let Some(file) = &mut self.file {
                    // On failure the long file remains in use; the next commit tries again.
                    _ = file.compact_if_long(&self.db);
                }
            }
            Ok(()) => {}
            Err(cause) => {
                if let Some(before) = before {
                    self.db.restore(before);
                }
                let error =
                    Error::io("transaction could not be stored", runtime::error_text(&cause)).to_json();
                for transaction in &mut pending {
                    transaction.results.push(error.clone());
                    transaction.changes = None;
                }
            }
        }
        pending
    }
}
