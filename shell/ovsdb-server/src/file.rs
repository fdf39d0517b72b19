//! The database file: opening, appending, compacting.
//!
//! Invariant: the bytes up to `good_len` are whole records that are on disk. An append that
//! fails cuts the file back to there.

use crate::lockfile::LockFile;
use ovsdb::{Database, Error, Schema, Uuid, log};
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// A smaller file is never rewritten.
const COMPACT_MIN_LEN: u64 = 10 << 20;
/// Rewritten when it is so many times as long as it was after the last rewriting.
const COMPACT_GROWTH: u64 = 4;

/// Why a database cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The operating system refused.
    #[error("{path}: {}", runtime::error_text(.cause))]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        cause: io::Error,
    },
    /// The file is of another kind, or damaged.
    #[error("{path}: {cause}")]
    Log {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        cause: log::LogError,
    },
    /// A record does not make sense.
    #[error("{path}: record at byte {offset}: {cause}")]
    Content {
        /// The file.
        path: PathBuf,
        /// Where the record begins.
        offset: usize,
        /// What is wrong.
        cause: Box<Error>,
    },
    /// There is no schema in the file.
    #[error("{0}: the file holds no schema")]
    Empty(PathBuf),
}

/// An open database file.
pub struct DatabaseFile {
    path: PathBuf,
    file: File,
    good_len: u64,
    compact_len: u64,
    /// Whether the file is certain to bear its name after a crash.
    folder_synced: bool,
    /// Whether bytes of a failed append may follow the good part.
    tail_dirty: bool,
    _lock: LockFile,
}

impl DatabaseFile {
    /// Opens the database at `path`, creating it with `schema` if there is none.
    pub fn open(path: &Path, schema: Option<&Schema>) -> Result<(DatabaseFile, Database), OpenError> {
        let io_error = |cause| OpenError::Io { path: path.to_owned(), cause };
        let lock = LockFile::take(path).map_err(io_error)?;
        if let (Some(schema), false) = (schema, path.exists()) {
            replace(path, &log::record(&schema.to_json()))
                .and_then(|_| sync_folder(path))
                .map_err(io_error)?;
        }
        let bytes = std::fs::read(path).map_err(io_error)?;
        let records = log::read(&bytes).map_err(|cause| OpenError::Log { path: path.to_owned(), cause })?;
        let file = File::options().read(true).write(true).open(path).map_err(io_error)?;
        let db = load(path, &records)?;
        if records.good_len < bytes.len() {
            // The writer died within its last record, which it therefore never confirmed.
            file.set_len(records.good_len as u64).and_then(|()| file.sync_data()).map_err(io_error)?;
        }
        let good_len = records.good_len as u64;
        let compact_len = log::snapshot(&db, 0).len() as u64;
        let mut this = DatabaseFile {
            path: path.to_owned(),
            file,
            good_len,
            compact_len,
            folder_synced: true,
            tail_dirty: false,
            _lock: lock,
        };
        this.compact_if_long(&db).map_err(io_error)?;
        Ok((this, db))
    }

    /// Appends records; on return they are on disk, or the file is as it was.
    pub fn append(&mut self, records: &[u8]) -> io::Result<()> {
        if !self.folder_synced {
            sync_folder(&self.path)?;
            self.folder_synced = true;
        }
        if self.tail_dirty {
            self.file.set_len(self.good_len)?;
            self.tail_dirty = false;
        }
        let written = self.file.write_all_at(records, self.good_len).and_then(|()| self.file.sync_data());
        if let Err(error) = written {
            // What was written must not be read back. If it cannot be cut off now, it is
            // before the next append.
            self.tail_dirty = self.file.set_len(self.good_len).is_err();
            return Err(error);
        }
        self.good_len += records.len() as u64;
        Ok(())
    }

    /// Rewrites the file when it has grown much longer than its content.
    pub fn compact_if_long(&mut self, db: &Database) -> io::Result<()> {
        if self.good_len < COMPACT_MIN_LEN || self.good_len / COMPACT_GROWTH < self.compact_len {
            return Ok(());
        }
        let snapshot = log::snapshot(db, now_ms());
        self.file = replace(&self.path, &snapshot)?;
        self.folder_synced = false;
        self.tail_dirty = false;
        self.good_len = snapshot.len() as u64;
        self.compact_len = self.good_len;
        Ok(())
    }
}

fn load(path: &Path, records: &log::Records) -> Result<Database, OpenError> {
    let content =
        |offset, cause| OpenError::Content { path: path.to_owned(), offset, cause: Box::new(cause) };
    let mut records = records.records.iter();
    let (_, schema) = records.next().ok_or_else(|| OpenError::Empty(path.to_owned()))?;
    let schema = Schema::from_json(schema).map_err(|cause| content(0, cause))?;
    let mut db = Database::new(Arc::new(schema), Uuid::new_v4());
    for (offset, body) in records {
        let commit = log::replay(&db, body, &mut Uuid::new_v4).map_err(|cause| content(*offset, cause))?;
        db.apply(commit, Uuid::new_v4());
    }
    db.forget_history();
    Ok(db)
}

/// Puts `bytes` in place of the file in one step; the answer is the new file.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<File> {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".tmp");
    let temporary = path.with_file_name(name);
    // Like the other database tools: others may not read it, it can hold keys.
    let file = File::options().write(true).create(true).truncate(true).mode(0o640).open(&temporary)?;
    let filled = file.write_all_at(bytes, 0).and_then(|()| file.sync_all());
    filled.and_then(|()| std::fs::rename(&temporary, &path)).inspect_err(|_| {
        _ = std::fs::remove_file(&temporary);
    })?;
    Ok(file)
}

/// Makes a rename in the folder of `path` last.
fn sync_folder(path: &Path) -> io::Result<()> {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}

/// Milliseconds since the epoch, for the `_date` of records.
pub fn now_ms() -> i64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX)
}
