//! The directory of the sockets at which DPDK's vhost library listens. Only this process uses it.

use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use std::fs::DirBuilder;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use vhost::path::{PATH_MAX, SocketError};

const PREFIX: &str = ".vhost-";

/// The directory, and its lock, which is held until this process ends. An unlocked directory was left by a process that has ended.
static DIRECTORY: Mutex<Option<(PathBuf, OwnedFd)>> = Mutex::new(None);

/// Returns a new path for each call. The path ends with the name of the guest's socket (shortened if the path would be too
/// long), so that the name appears in the library's messages.
pub(crate) fn new_path(shown: &str) -> Result<String, SocketError> {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let mut directory_and_lock = DIRECTORY.lock().unwrap_or_else(PoisonError::into_inner);
    if directory_and_lock.is_none() {
        let under = &crate::settings().vhost_sock_dir;
        *directory_and_lock =
            Some(make(under).map_err(|_| SocketError::Refused("making a directory for sockets"))?);
    }
    let (directory, _lock) = directory_and_lock.as_ref().ok_or(SocketError::Invalid)?;
    let directory = directory.to_str().ok_or(SocketError::Invalid)?;
    let mut path = format!("{directory}/{}-", NEXT.fetch_add(1, Ordering::Relaxed));
    let room = PATH_MAX
        .checked_sub(path.len())
        .ok_or(SocketError::Refused("the path of vhost-sock-dir is too long: making a socket in it"))?;
    let name = shown.rsplit('/').next().unwrap_or_default();
    path.push_str(&name[..name.floor_char_boundary(room)]);
    Ok(path)
}

fn make(under: &Path) -> std::io::Result<(PathBuf, OwnedFd)> {
    remove_abandoned(under);
    let path = under.join(format!("{PREFIX}{}", std::process::id()));
    DirBuilder::new().mode(0o700).create(&path)?;
    let lock = lock(&path).ok_or(std::io::ErrorKind::WouldBlock)?;
    Ok((path, lock))
}

fn lock(path: &Path) -> Option<OwnedFd> {
    let fd =
        open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty());
    let fd = fd.ok()?;
    flock(&fd, FlockOperation::NonBlockingLockExclusive).ok()?;
    Some(fd)
}

/// Removes directories that were left by processes that have ended.
fn remove_abandoned(under: &Path) {
    let Ok(entries) = std::fs::read_dir(under) else { return };
    for entry in entries.flatten() {
        let ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        if ours && lock(&entry.path()).is_some() {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_directories_of_ended_processes_are_removed() {
        let under = std::env::temp_dir().join(format!("vhost-sockets-{}", std::process::id()));
        let (left, other) = (under.join(".vhost-0"), under.join("other"));
        [&left, &other].into_iter().for_each(|d| std::fs::create_dir_all(d).unwrap());
        std::fs::write(left.join("1-v0"), "").unwrap();
        let (first, _lock) = make(&under).unwrap();
        assert!(!left.exists() && other.exists() && first.exists());
        remove_abandoned(&under);
        assert!(first.exists(), "it is in use");
        drop(_lock);
        remove_abandoned(&under);
        assert!(!first.exists() && other.exists());
        std::fs::remove_dir_all(&under).unwrap();
    }
}
