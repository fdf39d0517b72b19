//! The pidfile. Its POSIX record lock, not its existence, shows that the daemon is running. So a stale file after
//! a crash does no harm, and the tools of Open vSwitch find the owner of the lock.

use super::log::text;
use super::predecessor::await_end;
use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::process::{Flock, FlockType, fcntl_getlk};
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

/// At most this many bytes of a pidfile are read.
const MAX_TEXT: u64 = 64;

/// The locked pidfile; dropping it removes the file.
#[derive(Debug)]
pub struct Pidfile {
    path: PathBuf,
    // Closing this descriptor, or any other of the same file, would release the lock.
    _locked: File,
}

impl Pidfile {
    /// Creates and locks the pidfile. Fails if the daemon is running already, unless `overwrite` is set.
    pub(super) fn take(path: &Path, overwrite: bool) -> Result<Pidfile, String> {
        if !overwrite {
            refuse_if_running(path)?;
        }
        let pid = std::process::id();
        let tmp = PathBuf::from(format!("{}.tmp{pid}", path.display()));
        let shown = format!("{}.tmp", path.display());
        let mut f = File::create(&tmp).map_err(|e| format!("{shown}: create failed ({})", text(e)))?;
        let result = fcntl_lock(&f, FlockOperation::NonBlockingLockExclusive)
            .map_err(|e| format!("{shown}: fcntl(F_SETLK) failed ({})", text(e)))
            .and_then(|()| {
                f.write_all(format!("{pid}\n").as_bytes())
                    .map_err(|e| format!("{shown}: write failed ({})", text(e)))
            })
            .and_then(|()| {
                std::fs::rename(&tmp, path).map_err(|e| {
                    let to = path.display();
                    format!("failed to rename \"{shown}\" to \"{to}\" ({})", text(e))
                })
            });
        if let Err(e) = result {
            let _ = std::fs::remove_file(&tmp);
            return Err(e);
        }
        Ok(Pidfile { path: path.to_path_buf(), _locked: f })
    }
}

impl Pidfile {
    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Pidfile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Returns an error if the daemon of this pidfile is running. If it was killed, waits until it has ended. The kernel
/// releases a lock before sockets and devices, so the process whose ID is in the file is checked, too.
pub(super) fn refuse_if_running(path: &Path) -> Result<(), String> {
    match read_pidfile(path) {
        Ok(pid) if !await_end(pid) => {
            return Err(format!("{}: already running as pid {pid}, aborting", path.display()));
        }
        Ok(_) => {}
        Err(_) => _ = File::open(path).ok().and_then(|mut file| written_pid(&mut file)).map(await_end),
    }
    Ok(())
}

/// The process ID that the last owner wrote to the file.
pub fn written_pid(file: &mut impl Read) -> Option<u32> {
    let mut content = String::new();
    file.take(MAX_TEXT).read_to_string(&mut content).ok()?;
    content.trim().parse().ok()
}

/// The process that holds the lock of the pidfile. Errors: `NotFound` if there is no file; "No such process" if no process
/// holds the lock.
pub fn read_pidfile(path: &Path) -> std::io::Result<u32> {
    let mut file = File::options().read(true).write(true).open(path).or_else(|e| match e.kind() {
        ErrorKind::PermissionDenied => File::open(path),
        _ => Err(e),
    })?;
    let held = fcntl_getlk(&file, &Flock::from(FlockType::WriteLock))?;
    let no_process = || std::io::Error::from(rustix::io::Errno::SRCH);
    let owner = held.and_then(|l| l.pid).ok_or_else(no_process)?;
    match written_pid(&mut file) {
        Some(pid) if pid == owner.as_raw_nonzero().get() as u32 => Ok(pid),
        _ => Err(no_process()),
    }
}
