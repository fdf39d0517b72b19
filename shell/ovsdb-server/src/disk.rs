//! The disk operations of a database file, and their implementation on this host.
//!
//! [`crate::file`] accesses files only through [`Disk`]. So tests can use a simulated disk that fails at any byte, sync
//! or rename, and that loses data as in a power failure.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

/// An open file.
pub trait DiskFile: Send + Sync {
    /// Writes all of `bytes` at `offset`; after a failure any part of them may have been written.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Truncates or extends the file.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Waits until the content is on disk. After a failure it is unknown which part is on disk.
    fn sync(&self) -> io::Result<()>;
}

/// A task in the background.
pub trait BackgroundTask: Send {
    /// Returns whether the task has ended.
    fn is_finished(&self) -> bool;
    /// Waits until the task has ended.
    fn wait(self: Box<Self>);
}

/// A file system.
pub trait Disk: Send + Sync {
    /// Returns whether the file exists.
    fn exists(&self, path: &Path) -> bool;
    /// The content of a file.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;
    /// Opens a file for writing.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;
    /// Creates an empty file, or truncates an existing one.
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;
    /// Renames a file atomically.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file name.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Makes renames in the directory of `path` durable.
    fn sync_folder(&self, path: &Path) -> io::Result<()>;
    /// The path of the file itself, with symbolic links resolved.
    fn real_path(&self, path: &Path) -> PathBuf;
    /// Runs a task in the background.
    fn spawn(&self, work: Box<dyn FnOnce() + Send>) -> io::Result<Box<dyn BackgroundTask>>;
}

/// The file system of this host.
pub struct HostDisk;

impl DiskFile for File {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        File::set_len(self, len)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}

impl BackgroundTask for JoinHandle<()> {
    fn is_finished(&self) -> bool {
        JoinHandle::is_finished(self)
    }

    fn wait(self: Box<Self>) {
        // If the task panicked, it has sent no result, which [`crate::file`] treats as a failed compaction.
        _ = self.join();
    }
}

impl Disk for HostDisk {
    fn exists(&self, path: &Path) -> bool {
        path.exists()
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        std::fs::read(path)
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(File::options().read(true).write(true).open(path)?))
    }

    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        // Not readable for other users, as with other database tools, since the file may contain keys.
        Ok(Arc::new(File::options().write(true).create(true).truncate(true).mode(0o640).open(path)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        let path = self.real_path(path);
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(folder)?.sync_all()
    }

    fn real_path(&self, path: &Path) -> PathBuf {
        path.canonicalize().unwrap_or_else(|_| path.to_owned())
    }

    fn spawn(&self, work: Box<dyn FnOnce() + Send>) -> io::Result<Box<dyn BackgroundTask>> {
        let work = || {
            runtime::ordered_panic::panic_if_ordered();
            work();
        };
        Ok(Box::new(std::thread::Builder::new().name("compact".into()).spawn(work)?))
    }
}
