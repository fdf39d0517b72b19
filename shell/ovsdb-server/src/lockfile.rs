//! The lock that lets only one process open a database file.
//!
//! It is a record lock (`fcntl`) on the file `.NAME.~lock~` in the same directory, as other database tools use it. The
//! kernel grants a record lock again to the process that holds it, so this process keeps a list of its own locks.

use runtime::daemon::{await_end, written_pid};
use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::process::{Flock, FlockType, fcntl_getlk};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The locks of this process.
static OWN_LOCKS: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// A lock, held until dropped.
pub struct LockFile {
    name: PathBuf,
    _file: File,
}

impl LockFile {
    /// Acquires the lock for the database at `path`. Fails if a process holds it; waits if that process was killed and is
    /// about to end.
    pub fn take(path: &Path) -> io::Result<LockFile> {
        let name = lock_name(path);
        let mut held = OWN_LOCKS.lock().unwrap_or_else(PoisonError::into_inner);
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
        let lock = || match fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(true),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::ACCESS) => Ok(false),
            Err(errno) => Err(io::Error::from(errno)),
        };
        let locked = lock()? || (await_owner_end(&file)? && lock()?);
        if !locked {
            return Err(busy());
        }
        await_last_owner_and_write_pid(&file);
        held.insert(name.clone());
        Ok(LockFile { name, _file: file })
    }
}

/// Returns whether the lock is free. If its owner was killed, first waits (up to 20 s) until the owner has
/// ended; does not wait for an owner that is alive.
fn await_owner_end(file: &File) -> io::Result<bool> {
    let held = fcntl_getlk(file, &Flock::from(FlockType::WriteLock))?;
    let owner = held.map(|lock| lock.pid.map_or(0, |pid| pid.as_raw_nonzero().get().unsigned_abs()));
    Ok(owner.is_none_or(await_end))
}

/// Waits until the last owner has ended: a process that is ending may still have sockets and devices after the kernel has
/// released its lock. Then writes the ID of this process for the next owner.
fn await_last_owner_and_write_pid(mut file: &File) {
    if let Some(last) = written_pid(&mut file).filter(|pid| *pid != std::process::id()) {
        await_end(last);
    }
    // On failure (disk full) the lock is valid nevertheless.
    _ = file.set_len(0).and_then(|()| file.write_all_at(format!("{}\n", std::process::id()).as_bytes(), 0));
}

impl Drop for LockFile {
    fn drop(&mut self) {
        OWN_LOCKS.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.name);
    }
}

/// The path of the lock file: `.NAME.~lock~` in the directory of the database file, with symbolic links resolved.
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
