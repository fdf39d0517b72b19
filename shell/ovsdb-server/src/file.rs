//! The database file: opening, appending, compacting.
//!
//! Invariant: the bytes up to `good_len` are whole records, which are on disk or on their way. An append that
//! fails cuts the file back to there. After a sync that failed nobody knows what is on the disk: the file is then written
//! anew, and nothing is stored before that has worked.
//!
//! A file that has grown long is rewritten beside itself by a thread of its own, from a snapshot; what is appended meanwhile
//! goes to both. Until the new file takes the place of the old one, the old one is the database.

use crate::lockfile::LockFile;
use crate::syncer::Syncer;
use ovsdb::{Database, Error, Schema, Uuid, log};
use runtime::Module;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{SystemTime, UNIX_EPOCH};

static LOG: Module = Module::new("ovsdb_file");

/// A smaller file is never rewritten.
const COMPACT_MIN_LEN: u64 = 10 << 20;
/// Rewritten when it is so many times as long as it was after the last rewriting.
const COMPACT_GROWTH: u64 = 4;

/// Why a database cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The operating system refused.
    #[error("I/O error: {path}: open failed ({})", runtime::error_text(.cause))]
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
    file: Arc<File>,
    syncer: Syncer,
    /// The file must be written anew before anything is added.
    doubtful: bool,
    good_len: u64,
    compact_len: u64,
    /// Whether the file is certain to bear its name after a crash.
    folder_synced: bool,
    /// Whether bytes of a failed append may follow the good part.
    tail_dirty: bool,
    rewriting: Option<Rewriting>,
    _lock: LockFile,
}

/// A new file in the making.
struct Rewriting {
    thread: JoinHandle<io::Result<(File, u64)>>,
    temporary: PathBuf,
    /// What was appended since the snapshot.
    tail: Vec<u8>,
}

impl DatabaseFile {
    /// Opens the database at `path`, creating it with `schema` if there is none.
    pub fn open(path: &Path, schema: Option<&Schema>) -> Result<(DatabaseFile, Database), OpenError> {
        let io_error = |cause| OpenError::Io { path: path.to_owned(), cause };
        let lock = LockFile::take(path).map_err(io_error)?;
        if let (Some(schema), false) = (schema, path.exists()) {
            create(path, &log::record(&schema.to_json())).map_err(io_error)?;
        }
        let bytes = std::fs::read(path).map_err(io_error)?;
        let records = log::read(&bytes).map_err(|cause| OpenError::Log { path: path.to_owned(), cause })?;
        if let Some(what) = &records.rest_is {
            runtime::warn!(LOG, "syntax error: {}: {what}", path.display());
        }
        let file = File::options().read(true).write(true).open(path).map_err(io_error)?;
        let (db, good_len) = load(path, &records)?;
        if good_len < bytes.len() {
            // What its writer never confirmed, or what cannot be understood and nothing follows.
            file.set_len(good_len as u64).and_then(|()| file.sync_data()).map_err(io_error)?;
        }
        let mut this = DatabaseFile {
            path: std::path::absolute(path).map_err(io_error)?,
            file: Arc::new(file),
            syncer: Syncer::start().map_err(io_error)?,
            doubtful: false,
            good_len: good_len as u64,
            compact_len: log::snapshot(&db, 0).len() as u64,
            folder_synced: true,
            tail_dirty: false,
            rewriting: None,
            _lock: lock,
        };
        if this.is_long() {
            this.rewrite(&db).map_err(io_error)?;
        }
        Ok((this, db))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends records that lead from `before` to the present; on return they are in the file, and on disk if `durable`, or
    /// the file is as it was.
    pub fn append(&mut self, records: &[u8], durable: bool, before: &Database) -> io::Result<()> {
        self.doubtful |= self.syncer.take_failure();
        if self.doubtful {
            runtime::err!(LOG, "{}: writing to disk failed, writing the file anew", self.path.display());
            self.rewrite(before)?;
            self.doubtful = false;
        }
        if !self.folder_synced {
            sync_folder(&self.path)?;
            self.folder_synced = true;
        }
        if self.tail_dirty {
            self.file.set_len(self.good_len)?;
            self.tail_dirty = false;
        }
        let written = self.file.write_all_at(records, self.good_len);
        let synced = written.and_then(|()| match durable {
            true => self.file.sync_data().inspect_err(|_| self.doubtful = true),
            false => {
                self.syncer.soon(&self.file);
                Ok(())
            }
        });
        if let Err(error) = synced {
            // What was written must not be read back. If it cannot be cut off now, it is
            // before the next append.
            self.tail_dirty = self.file.set_len(self.good_len).is_err();
            return Err(error);
        }
        self.good_len += records.len() as u64;
        if let Some(rewriting) = &mut self.rewriting {
            rewriting.tail.extend_from_slice(records);
        }
        Ok(())
    }

    fn is_long(&self) -> bool {
        self.good_len >= COMPACT_MIN_LEN && self.good_len / COMPACT_GROWTH >= self.compact_len
    }

    /// Sees to it that the file is rewritten when it has grown much longer than its content.
    pub fn compact_if_long(&mut self, db: &Database) -> io::Result<()> {
        match &self.rewriting {
            Some(rewriting) if rewriting.thread.is_finished() => self.finish_rewriting(),
            None if self.is_long() => self.start_rewriting(db),
            _ => Ok(()),
        }
    }

    /// Rewrites the file now.
    pub fn rewrite(&mut self, db: &Database) -> io::Result<()> {
        // One under way may have begun long ago, or from another schema.
        if let Some(rewriting) = self.rewriting.take() {
            _ = rewriting.thread.join();
        }
        self.start_rewriting(db)?;
        self.finish_rewriting()?;
        // Where that fails, the next append tries again.
        self.folder_synced = sync_folder(&self.path).is_ok();
        Ok(())
    }

    fn start_rewriting(&mut self, db: &Database) -> io::Result<()> {
        let temporary = temporary_name(&self.path);
        let (db, path) = (db.clone(), temporary.clone());
        let thread = std::thread::Builder::new().name("compact".into()).spawn(move || {
            let bytes = log::snapshot(&db, now_ms());
            write_new(&path, &bytes).map(|file| (file, bytes.len() as u64))
        })?;
        self.rewriting = Some(Rewriting { thread, temporary, tail: Vec::new() });
        Ok(())
    }

    fn finish_rewriting(&mut self) -> io::Result<()> {
        let Some(Rewriting { thread, temporary, tail }) = self.rewriting.take() else { return Ok(()) };
        let written = thread.join().unwrap_or_else(|_| Err(io::Error::other("compaction failed")));
        let placed = written.and_then(|(file, len)| {
            file.write_all_at(&tail, len)?;
            file.sync_data()?;
            std::fs::rename(&temporary, self.path.canonicalize()?)?;
            Ok((file, len))
        });
        let (file, len) = placed.inspect_err(|_| _ = std::fs::remove_file(&temporary))?;
        self.file = Arc::new(file);
        self.folder_synced = false;
        self.tail_dirty = false;
        self.good_len = len + tail.len() as u64;
        self.compact_len = len;
        Ok(())
    }
}

impl Drop for DatabaseFile {
    fn drop(&mut self) {
        if let Some(Rewriting { thread, temporary, .. }) = self.rewriting.take() {
            _ = thread.join();
            _ = std::fs::remove_file(temporary);
        }
    }
}

/// The database in a file that is not to be changed.
pub fn read(path: &Path) -> Result<Database, OpenError> {
    let bytes = std::fs::read(path).map_err(|cause| OpenError::Io { path: path.to_owned(), cause })?;
    let records = log::read(&bytes).map_err(|cause| OpenError::Log { path: path.to_owned(), cause })?;
    Ok(load(path, &records)?.0)
}

/// The database, and where what makes it up ends.
fn load(path: &Path, records: &log::Records) -> Result<(Database, usize), OpenError> {
    let content =
        |offset, cause| OpenError::Content { path: path.to_owned(), offset, cause: Box::new(cause) };
    let (_, schema) = records.records.first().ok_or_else(|| OpenError::Empty(path.to_owned()))?;
    let schema = Schema::from_json(schema).map_err(|cause| content(0, cause))?;
    let mut db = Database::new(Arc::new(schema), Uuid::new_v4());
    let mut good_len = records.good_len;
    for (place, (offset, body)) in records.records.iter().enumerate().skip(1) {
        match log::replay(&db, body, &mut Uuid::new_v4) {
            Ok(commit) => db.apply(commit, Uuid::new_v4()),
            // No server wrote that; what is before it is whole.
            Err(cause) if place + 1 == records.records.len() => {
                runtime::warn!(LOG, "{}: {cause}", path.display());
                good_len = *offset;
            }
            Err(cause) => return Err(content(*offset, cause)),
        }
    }
    db.forget_history();
    Ok((db, good_len))
}

/// Where the successor of the file is written.
fn temporary_name(path: &Path) -> PathBuf {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".tmp");
    path.with_file_name(name)
}

/// A file with `bytes` that are on disk, or none.
fn write_new(path: &Path, bytes: &[u8]) -> io::Result<File> {
    // Like the other database tools: others may not read it, it can hold keys.
    let file = File::options().write(true).create(true).truncate(true).mode(0o640).open(path)?;
    let filled = file.write_all_at(bytes, 0).and_then(|()| file.sync_all());
    filled.inspect_err(|_| _ = std::fs::remove_file(path))?;
    Ok(file)
}

/// Puts a file with `bytes` in its place in one step.
fn create(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = temporary_name(path);
    write_new(&temporary, bytes)?;
    std::fs::rename(&temporary, path).inspect_err(|_| _ = std::fs::remove_file(&temporary))?;
    sync_folder(path)
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
