//! One process at a time may have a database file open.
//!
//! The lock is a record lock (`fcntl`) on `.NAME.~lock~` beside the file, as the other
//! database tools take it. Such locks do not keep a process from itself, hence the list of
//! locks that this process holds.

use rustix::fs::{FlockOperation, fcntl_lock};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

static HELD: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// A lock, held until dropped.
pub struct LockFile {
    name: PathBuf,
    _file: File,
}

impl LockFile {
    /// Takes the lock for the database at `path`; fails at once when it is taken.
    pub fn take(path: &Path) -> io::Result<LockFile> {
        let name = lock_name(path);
        let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
        let busy = || {
            io::Error::new(
                io::ErrorKind::WouldBlock,
                format!("{} is locked by another server", name.display()),
            )
        };
        if held.contains(&name) {
            return Err(busy());
        }
        let file = File::options().read(true).write(true).create(true).truncate(false).open(&name)?;
        match fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::ACCESS) => return Err(busy()),
            Err(errno) => return Err(errno.into()),
        }
        held.insert(name.clone());
        Ok(LockFile { name, _file: file })
    }
}

impl Drop for LockFile {
    fn drop(&mut self) {
        HELD.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.name);
    }
}

/// `.NAME.~lock~` beside the file itself, behind any symbolic links.
fn lock_name(path: &Path) -> PathBuf {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let real = path.canonicalize().unwrap_or_else(|_| {
        let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        folder.join(path.file_name().unwrap_or_default())
    });
    let mut name = OsString::from(".");
    name.push(real.file_name().unwrap_or_default());
    name.push(".~lock~");
    real.with_file_name(name)
}
