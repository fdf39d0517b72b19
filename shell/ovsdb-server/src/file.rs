//! The database file: opening, appending, compacting.
//!
//! Invariant: the bytes up to `good_len` are complete records, which are on disk or will be synced. After a failed append
//! the file is truncated to `good_len`. After a failed sync it is unknown which part of the file is on disk: the file is
//! then rewritten, and nothing is stored before rewriting has succeeded.
//!
//! A file that has grown long is compacted: a background thread writes a new file from a snapshot; records that are
//! appended meanwhile are written to both files. Until the new file replaces the old file, the old file is the database.

use crate::disk::{BackgroundTask, Disk, DiskFile, HostDisk};
use crate::identity;
use crate::lockfile::LockFile;
use crate::syncer::{DeferredSync, Syncer};
use ovsdb::{Database, Error, Schema, Uuid, log};
use runtime::Module;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{SystemTime, UNIX_EPOCH};

static LOG: Module = Module::new("ovsdb_file");

/// Minimum length for automatic compaction, in bytes.
const COMPACT_MIN_LEN: u64 = 10 << 20;
/// The file is compacted when it is this many times as long as after the last compaction.
const COMPACT_GROWTH: u64 = 4;
/// After a failed compaction, the next one starts when the file has grown by 1/COMPACT_AGAIN.
const COMPACT_AGAIN: u64 = 4;

/// Why a database cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// An error of the operating system.
    #[error("I/O error: {path}: open failed ({})", runtime::error_text(.cause))]
    Io {
        /// The path of the file.
        path: PathBuf,
        /// The system's error.
        cause: io::Error,
    },
    /// The file is not a database file, or is damaged.
    #[error("{path}: {cause}")]
    Log {
        /// The path of the file.
        path: PathBuf,
        /// The reason.
        cause: log::LogError,
    },
    /// A record is invalid.
    #[error("{path}: record at byte {offset}: {cause}")]
    Content {
        /// The path of the file.
        path: PathBuf,
        /// The offset of the record, in bytes.
        offset: usize,
        /// The reason.
        cause: Box<Error>,
    },
    /// The file contains no schema.
    #[error("{0}: the file holds no schema")]
    Empty(PathBuf),
}

/// An open database file.
pub struct DatabaseFile {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    syncer: Box<dyn DeferredSync>,
    /// Whether the file must be rewritten before anything is appended.
    must_rewrite: bool,
    /// Length of the valid records, in bytes.
    good_len: u64,
    /// Minimum length for automatic compaction, in bytes.
    compact_min_len: u64,
    /// The length at which the next compaction starts.
    compact_at: u64,
    /// Whether the file's name is on disk, so that the file exists after a power failure.
    folder_synced: bool,
    /// Whether bytes of a failed append may follow the first `good_len` bytes.
    tail_dirty: bool,
    rewriting: Option<RunningCompaction>,
    _lock: LockFile,
}

/// A compaction in progress.
struct RunningCompaction {
    task: Box<dyn BackgroundTask>,
    /// Delivers the new file and its length.
    written: Receiver<io::Result<(Arc<dyn DiskFile>, u64)>>,
    /// Path of the new file.
    temporary: PathBuf,
    /// The records appended since the snapshot.
    tail: Vec<u8>,
}

impl DatabaseFile {
    /// Opens the database at `path`; creates it with `schema` if it is missing.
    pub fn open(path: &Path, schema: Option<&Schema>) -> Result<(DatabaseFile, Database), OpenError> {
        let syncer = Syncer::start().map_err(|cause| OpenError::Io { path: path.to_owned(), cause })?;
        Self::open_on(Arc::new(HostDisk), Box::new(syncer), path, schema, COMPACT_MIN_LEN)
    }

    /// Like [`DatabaseFile::open`], with another disk, another implementation of deferred syncs and another minimum
    /// length for compaction.
    pub(crate) fn open_on(
        disk: Arc<dyn Disk>,
        syncer: Box<dyn DeferredSync>,
        path: &Path,
        schema: Option<&Schema>,
        compact_min_len: u64,
    ) -> Result<(DatabaseFile, Database), OpenError> {
        let io_error = |cause| OpenError::Io { path: path.to_owned(), cause };
        let lock = LockFile::take(path).map_err(io_error)?;
        if let (Some(schema), false) = (schema, disk.exists(path)) {
            create(disk.as_ref(), path, &log::record(&schema.to_json())).map_err(io_error)?;
        }
        let bytes = disk.read(path).map_err(io_error)?;
        let records = log::read(&bytes).map_err(|cause| OpenError::Log { path: path.to_owned(), cause })?;
        if let Some(what) = &records.tail_fault {
            runtime::warn!(LOG, "syntax error: {}: {what}", path.display());
        }
        let file = disk.open(path).map_err(io_error)?;
        let (db, good_len) = load(path, &records)?;
        // Cut off an incomplete or invalid last record, which was never confirmed to a client. The file is not synced here: if
        // the sync failed, data that the last process had not synced could be lost unnoticed. The first durable commit
        // syncs everything.
        let tail_dirty = good_len < bytes.len() && file.set_len(good_len as u64).is_err();
        let mut this = DatabaseFile {
            disk,
            path: std::path::absolute(path).map_err(io_error)?,
            file,
            syncer,
            must_rewrite: false,
            good_len: good_len as u64,
            compact_min_len,
            compact_at: 0,
            // The process that created the file may have ended before it synced the directory.
            folder_synced: false,
            tail_dirty,
            rewriting: None,
            _lock: lock,
        };
        this.set_compact_at(log::estimated_len(&db));
        if this.good_len >= this.compact_at {
            // On failure the old, long file remains in use.
            _ = this.rewrite(&db).inspect_err(|e| this.log_errors("compaction failed", e));
        }
        Ok((this, db))
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn log_errors(&self, what: &str, error: &io::Error) {
        runtime::warn!(LOG, "{}: {what} ({})", self.path.display(), runtime::error_text(error));
    }

    /// Appends records. `before`: the database before these records. On success the records are in the file, and on disk
    /// if `durable`. On failure the file is unchanged.
    pub fn append(&mut self, records: &[u8], durable: bool, before: &Database) -> io::Result<()> {
        self.must_rewrite |= self.syncer.take_failure();
        if self.must_rewrite {
            runtime::err!(LOG, "{}: writing to disk failed, rewriting the file", self.path.display());
            self.rewrite(before)?;
        }
        if !self.folder_synced {
            self.disk.sync_folder(&self.path)?;
            self.folder_synced = true;
        }
        if self.tail_dirty {
            self.file.set_len(self.good_len)?;
            self.tail_dirty = false;
        }
        let written = self.file.write_at(records, self.good_len);
        let synced = written.and_then(|()| match durable {
            true => self.file.sync().inspect_err(|_| self.must_rewrite = true),
            false => {
                self.syncer.request_sync(&self.file);
                Ok(())
            }
        });
        if let Err(error) = synced {
            // The bytes of the failed append must not be read by the next process. If they cannot be cut off now, they
            // are cut off before the next append.
            self.tail_dirty = self.file.set_len(self.good_len).is_err();
            return Err(error);
        }
        self.good_len += records.len() as u64;
        if let Some(rewriting) = &mut self.rewriting {
            rewriting.tail.extend_from_slice(records);
        }
        Ok(())
    }

    /// Sets the length for the next compaction after the file was compacted to `compact_len` bytes.
    fn set_compact_at(&mut self, compact_len: u64) {
        self.compact_at = self.compact_min_len.max(compact_len.saturating_mul(COMPACT_GROWTH));
    }

    /// Starts a compaction if the file has grown much longer than its content.
    pub fn compact_if_long(&mut self, db: &Database) -> io::Result<()> {
        if self.good_len >= self.compact_at { self.start_rewriting_once(db) } else { Ok(()) }
    }

    /// Starts a compaction, unless one is in progress.
    pub fn start_rewriting_once(&mut self, db: &Database) -> io::Result<()> {
        if self.rewriting.is_some() { Ok(()) } else { self.start_rewriting(db) }
    }

    /// Returns whether a compaction is in progress.
    pub fn is_rewriting(&self) -> bool {
        self.rewriting.is_some()
    }

    /// Returns whether the new file is complete and has not replaced the old file yet.
    pub fn is_new_file_complete(&self) -> bool {
        self.rewriting.as_ref().is_some_and(|rewriting| rewriting.task.is_finished())
    }

    /// Replaces the old file if the new file is complete; returns the result of the compaction.
    pub fn replace_if_rewritten(&mut self) -> Option<io::Result<()>> {
        self.is_new_file_complete().then(|| self.finish_rewriting())
    }

    /// Rewrites the file, and waits until the new file has replaced the old one.
    pub fn rewrite(&mut self, db: &Database) -> io::Result<()> {
        // A compaction in progress may have started before the last changes, or with another schema: discard its result.
        if let Some(rewriting) = self.rewriting.take() {
            rewriting.task.wait();
        }
        self.start_rewriting(db)?;
        self.finish_rewriting()?;
        // On failure the next append tries again.
        self.folder_synced = self.disk.sync_folder(&self.path).is_ok();
        Ok(())
    }

    fn start_rewriting(&mut self, db: &Database) -> io::Result<()> {
        let temporary = temporary_name(&self.disk.real_path(&self.path));
        let (db, path, disk) = (db.clone(), temporary.clone(), Arc::clone(&self.disk));
        let (sender, written) = channel();
        let task = self.disk.spawn(Box::new(move || {
            let bytes = log::snapshot(&db, now_ms());
            let new = write_new(disk.as_ref(), &path, &bytes).map(|file| (file, bytes.len() as u64));
            // Fails if the file was closed meanwhile.
            _ = sender.send(new);
        }))?;
        self.rewriting = Some(RunningCompaction { task, written, temporary, tail: Vec::new() });
        Ok(())
    }

    fn finish_rewriting(&mut self) -> io::Result<()> {
        let Some(RunningCompaction { task, written, temporary, tail }) = self.rewriting.take() else {
            return Ok(());
        };
        task.wait();
        let written = written.try_recv().unwrap_or_else(|_| Err(io::Error::other("compaction failed")));
        let replaced = written.and_then(|(file, len)| {
            if !tail.is_empty() {
                file.write_at(&tail, len)?;
                file.sync()?;
            }
            self.disk.rename(&temporary, &self.disk.real_path(&self.path))?;
            Ok((file, len))
        });
        let (file, len) = replaced.inspect_err(|_| {
            self.compact_at = self.good_len + self.good_len / COMPACT_AGAIN;
            _ = self.disk.remove(&temporary);
        })?;
        self.file = file;
        self.folder_synced = false;
        self.tail_dirty = false;
        // The new file is completely on disk; failed syncs of the old file do not matter any more.
        self.must_rewrite = false;
        self.good_len = len + tail.len() as u64;
        self.set_compact_at(len);
        Ok(())
    }
}

impl Drop for DatabaseFile {
    fn drop(&mut self) {
        if let Some(RunningCompaction { task, temporary, .. }) = self.rewriting.take() {
            task.wait();
            _ = self.disk.remove(&temporary);
        }
    }
}

/// Reads the database in a file without changing the file.
pub fn read(path: &Path) -> Result<Database, OpenError> {
    let bytes = std::fs::read(path).map_err(|cause| OpenError::Io { path: path.to_owned(), cause })?;
    let records = log::read(&bytes).map_err(|cause| OpenError::Log { path: path.to_owned(), cause })?;
    Ok(load(path, &records)?.0)
}

/// Reads the database from its records; also returns the length of the valid records in bytes.
fn load(path: &Path, records: &log::Records) -> Result<(Database, usize), OpenError> {
    let content =
        |offset, cause| OpenError::Content { path: path.to_owned(), offset, cause: Box::new(cause) };
    let (_, schema) = records.records.first().ok_or_else(|| OpenError::Empty(path.to_owned()))?;
    let schema = Schema::from_json(schema).map_err(|cause| content(0, cause))?;
    let mut db = Database::new(Arc::new(schema), Uuid::new_v4());
    let mut good_len = records.good_len;
    for (index, (offset, body)) in records.records.iter().enumerate().skip(1) {
        match log::replay(&db, body, &mut identity::random_uuid) {
            Ok(commit) => db.apply(commit, identity::random_uuid()),
            // A last record that cannot be applied was not written by a server: ignore it.
            Err(cause) if index + 1 == records.records.len() => {
                runtime::warn!(LOG, "{}: {cause}", path.display());
                good_len = *offset;
            }
            Err(cause) => return Err(content(*offset, cause)),
        }
    }
    db.forget_history();
    Ok((db, good_len))
}

/// The path of the new file during a compaction.
fn temporary_name(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".tmp");
    path.with_file_name(name)
}

/// Creates a file with `bytes` and syncs it; on failure removes it.
fn write_new(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> io::Result<Arc<dyn DiskFile>> {
    let file = disk.create(path)?;
    let filled = file.write_at(bytes, 0).and_then(|()| file.sync());
    filled.inspect_err(|_| _ = disk.remove(path))?;
    Ok(file)
}

/// Creates a file with `bytes` atomically.
fn create(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = temporary_name(&disk.real_path(path));
    write_new(disk, &temporary, bytes)?;
    disk.rename(&temporary, path).inspect_err(|_| _ = disk.remove(&temporary))?;
    disk.sync_folder(path)
}

/// Milliseconds since the Unix epoch, for the `_date` of records.
pub fn now_ms() -> i64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX)
}
