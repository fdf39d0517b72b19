//! One served database, and the batch of its executed transactions that are not stored yet.
//!
//! Transactions that arrive together are stored with one write and one sync. They are executed one after another in
//! memory. Replies and updates for monitors are sent only after all of them are stored. If storing fails, the database in
//! memory is reset to its state before the batch.

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
pub struct ExecutedTransaction {
    /// The session and the ID of the request; `None` for a transaction of the server itself.
    pub request: Option<(SessionId, Json)>,
    /// The results for the reply.
    pub results: Vec<Json>,
    /// ID and changes of the transaction; `None` if it failed or changed nothing.
    pub changes: Option<(Uuid, Arc<Changes>)>,
}

/// The state of a requested compaction.
#[derive(Default)]
enum CompactionState {
    /// No compaction is requested.
    #[default]
    NotRequested,
    /// The file is being rewritten.
    Running,
    /// The compaction has ended.
    Done(io::Result<()>),
}

/// A database, its file, and the current batch.
pub struct ServedDatabase {
    pub db: Database,
    /// The file; `None` for a database in memory only.
    file: Option<DatabaseFile>,
    /// Snapshot of the database before the batch; `None`: the batch changes nothing.
    before_batch: Option<Database>,
    /// The encoded records of the batch.
    records: Vec<u8>,
    /// Whether the batch must be on disk before it is answered.
    durable: bool,
    /// The transactions of the batch.
    pending: Vec<ExecutedTransaction>,
    /// Estimated memory of the rows that the transactions of the batch have selected, in bytes.
    pub selected: usize,
    /// Estimated memory of the copies of values that they have written to more than one row, in bytes.
    pub copied: usize,
    compaction: CompactionState,
    /// Increases with every stored change.
    pub generation: u64,
    /// Increases with every change in memory, also if it is not stored yet or reset.
    version: u64,
    /// The version of the last change of each table.
    table_versions: Vec<u64>,
}

impl ServedDatabase {
    /// Serves `db` from `file`.
    pub fn new(db: Database, file: Option<DatabaseFile>) -> ServedDatabase {
        let table_versions = vec![0; db.tables().len()];
        ServedDatabase {
            db,
            file,
            before_batch: None,
            records: Vec::new(),
            durable: false,
            pending: Vec::new(),
            selected: 0,
            copied: 0,
            compaction: CompactionState::NotRequested,
            generation: 0,
            version: 0,
            table_versions,
        }
    }

    /// Returns whether the database describes the server itself.
    pub fn is_reserved(&self) -> bool {
        self.db.schema().name.starts_with('_')
    }

    /// Increases with every change of a row. Blocked transactions remember it, see [`ServedDatabase::has_changed`].
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns whether one of the tables has changed since the database had this version.
    pub fn has_changed(&self, tables: &[usize], since: u64) -> bool {
        tables.iter().any(|table| self.table_versions.get(*table).is_none_or(|version| *version > since))
    }

    /// All tables may have changed.
    fn all_tables_changed(&mut self) {
        self.version += 1;
        self.table_versions = vec![self.version; self.db.tables().len()];
    }

    /// The path of its file.
    pub fn path(&self) -> Option<&Path> {
        self.file.as_ref().map(DatabaseFile::path)
    }

    /// Starts to rewrite the file; [`ServedDatabase::take_compaction_result`] returns the result. No transaction may be
    /// pending.
    pub fn compact(&mut self) {
        let begun = self.file.as_mut().map_or(Ok(()), |file| file.start_rewriting_once(&self.db));
        let Err(error) = begun else {
            self.compaction =
                if self.is_compacting() { CompactionState::Running } else { CompactionState::Done(Ok(())) };
            return;
        };
        self.compaction = CompactionState::Done(Err(error));
    }

    /// Returns whether the file is being rewritten.
    pub fn is_compacting(&self) -> bool {
        self.file.as_ref().is_some_and(DatabaseFile::is_rewriting)
    }

    /// Returns whether the new file is complete. Replacing the old file may then block on the disk.
    pub fn is_file_rewritten(&self) -> bool {
        self.file.as_ref().is_some_and(DatabaseFile::is_new_file_complete)
    }

    /// Replaces the old file if the new file is complete.
    pub fn replace_file_if_rewritten(&mut self) {
        if let Some(done) = self.file.as_mut().and_then(DatabaseFile::replace_if_rewritten)
            && matches!(self.compaction, CompactionState::Running)
        {
            self.compaction = CompactionState::Done(done);
        }
    }

    /// The result of the requested compaction if it has ended; `None`: it is running.
    pub fn take_compaction_result(&mut self) -> Option<io::Result<()>> {
        // A conversion rewrites the file, too, and so ends a running compaction.
        if matches!(self.compaction, CompactionState::Running) && !self.is_compacting() {
            self.compaction = CompactionState::Done(Ok(()));
        }
        match std::mem::take(&mut self.compaction) {
            CompactionState::Done(result) => Some(result),
            // The result was already returned to another request.
            CompactionState::NotRequested => Some(Ok(())),
            CompactionState::Running => {
                self.compaction = CompactionState::Running;
                None
            }
        }
    }

    /// Converts the database to another schema, in the file and in memory; on failure both are unchanged. No
    /// transaction may be pending.
    pub fn convert(&mut self, schema: Arc<Schema>) -> Result<(), Error> {
        let converted = convert::convert(&self.db, schema, &mut identity::random_uuid)?;
        if let Some(file) = &mut self.file {
            file.rewrite(&converted)
                .map_err(|cause| Error::io("schema could not be stored", runtime::error_text(&cause)))?;
        }
        self.db = converted;
        self.generation += 1;
        self.all_tables_changed();
        Ok(())
    }

    /// Adds a transaction that failed or changes nothing to the batch, so that replies keep the order of the requests.
    pub fn add_without_changes(&mut self, session: SessionId, id: Json, results: Vec<Json>) {
        self.pending.push(ExecutedTransaction { request: Some((session, id)), results, changes: None });
    }

    /// Applies a transaction in memory and adds it to the batch.
    pub fn add(&mut self, session: SessionId, id: Json, prepared: Prepared) {
        let Prepared { results, commit, comment, durable } = prepared;
        self.durable |= durable;
        if commit.changes.is_empty() {
            return self.add_without_changes(session, id, results);
        }
        self.apply(Some((session, id)), results, commit, &comment);
    }

    /// Executes a transaction of the server itself and adds it to the batch. An error is a bug of the server.
    pub fn add_server_transaction(&mut self, operations: &[Operation]) -> Result<(), Error> {
        let commit = transaction::apply_own(&self.db, operations, &mut identity::random_uuid)?;
        if !commit.changes.is_empty() {
            self.apply(None, Vec::new(), commit, "");
        }
        Ok(())
    }

    fn apply(
        &mut self,
        request: Option<(SessionId, Json)>,
        results: Vec<Json>,
        commit: Commit,
        comment: &str,
    ) {
        let changes = commit.changes.clone();
        if let Some(body) = log::transaction_text(self.db.schema(), &changes, now_ms(), comment) {
            self.records.extend(log::record_of_text(&body));
        }
        self.version += 1;
        for change in changes.iter() {
            if let Some(version) = self.table_versions.get_mut(change.table) {
                *version = self.version;
            }
        }
        self.before_batch.get_or_insert_with(|| self.db.checkpoint());
        let transaction = identity::random_uuid();
        self.db.apply(commit, transaction);
        self.pending.push(ExecutedTransaction { request, results, changes: Some((transaction, changes)) });
    }

    /// Stores the batch and returns its transactions, to which the caller can now reply.
    pub fn store(&mut self) -> Vec<ExecutedTransaction> {
        let mut pending = std::mem::take(&mut self.pending);
        let records = std::mem::take(&mut self.records);
        let before = self.before_batch.take();
        let durable = std::mem::take(&mut self.durable);
        (self.selected, self.copied) = (0, 0);
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
                    // On failure the old, long file remains in use; the next commit tries again.
                    _ = file.compact_if_long(&self.db);
                }
            }
            Ok(()) => {}
            Err(cause) => {
                if let Some(before) = before {
                    self.db.restore(before);
                    self.all_tables_changed();
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
