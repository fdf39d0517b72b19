//! A second name of the daemon: links to its pidfile and control socket, for tools that look for the daemon under that
//! name.
//!
//! `ovs-appctl` without `-t`, and scripts, read `ovs-vswitchd.pid` and test its lock, then connect to
//! `ovs-vswitchd.<pid>.ctl`. Symbolic links work for both: a process that opens the link opens this daemon's file with its
//! lock, so another daemon of that name detects that this daemon is running. After `kill -9` the links are dangling, and the next
//! daemon replaces them.

use super::pidfile::read_pidfile;
use crate::error_text;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

/// The links; dropping the value removes those that still point to this daemon's files.
#[derive(Debug, Default)]
pub struct Alias {
    links: Vec<(PathBuf, PathBuf)>,
}

impl Alias {
    /// Links `<rundir>/<name>.pid` to `pidfile`, and `<rundir>/<name>.<pid>.ctl` to the control socket.
    /// Returns an error if `<rundir>/<name>.pid` belongs to another running process.
    pub fn take(rundir: &Path, name: &str, pidfile: &Path, control: Option<&Path>) -> Result<Alias, String> {
        let pid_link = rundir.join(format!("{name}.pid"));
        // Opening and closing this daemon's own pidfile through the link would release its lock.
        if !is_same_file(&pid_link, pidfile)
            && let Ok(owner) = read_pidfile(&pid_link)
        {
            return Err(format!("{} belongs to the running process {owner}", pid_link.display()));
        }
        let mut alias = Alias::default();
        let control_link = rundir.join(format!("{name}.{}.ctl", std::process::id()));
        let wanted = control.map(|path| (control_link, path)).into_iter().chain([(pid_link, pidfile)]);
        for (link, file) in wanted {
            let target = match file.parent() == link.parent() {
                true => PathBuf::from(file.file_name().unwrap_or_default()),
                false => file.to_path_buf(),
            };
            replace(&link, &target).map_err(|e| format!("{}: {}", link.display(), error_text(&e)))?;
            alias.links.push((link, target));
        }
        Ok(alias)
    }
}

impl Drop for Alias {
    fn drop(&mut self) {
        for (link, target) in &self.links {
            if std::fs::read_link(link).is_ok_and(|found| found == *target) {
                let _ = std::fs::remove_file(link);
            }
        }
    }
}

/// Replaces the link atomically: creates a new link and renames it.
fn replace(link: &Path, target: &Path) -> std::io::Result<()> {
    let fresh = PathBuf::from(format!("{}.tmp{}", link.display(), std::process::id()));
    symlink(target, &fresh)?;
    std::fs::rename(&fresh, link).inspect_err(|_| _ = std::fs::remove_file(&fresh))
}

fn is_same_file(a: &Path, b: &Path) -> bool {
    let id = |path| std::fs::metadata(path).map(|m| (m.dev(), m.ino())).ok();
    id(a).is_some_and(|id_a| id(b) == Some(id_a))
}

/// Removes files that killed daemons of these names have left: sockets `<progname>.<pid>.ctl` without a listener, and
/// links `<name>.<pid>.ctl` to such sockets. Also removes links to `control`, the socket of this daemon: this daemon has
/// not made its own link yet, so an earlier daemon with the same `--unixctl` has made such a link.
pub fn remove_stale(rundir: &Path, progname: &str, name: &str, control: Option<&Path>) {
    let Ok(entries) = std::fs::read_dir(rundir) else { return };
    for entry in entries.flatten() {
        let file = entry.file_name().to_string_lossy().into_owned();
        let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
        let ours = is_control(&file, progname) || is_link && is_control(&file, name);
        let of_earlier_daemon = is_link && control.is_some_and(|own| is_same_file(&entry.path(), own));
        if ours && (of_earlier_daemon || is_dead(&entry.path())) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// Returns whether a file name is `<progname>.<pid>.ctl`.
fn is_control(file: &str, progname: &str) -> bool {
    let pid = file.strip_prefix(progname).and_then(|rest| rest.strip_prefix('.')?.strip_suffix(".ctl"));
    pid.is_some_and(|pid| !pid.is_empty() && pid.bytes().all(|c| c.is_ascii_digit()))
}

/// Returns whether nothing listens on this socket, or the link is dangling. Does not wait if the listener's backlog is
/// full.
fn is_dead(path: &Path) -> bool {
    [Some(Errno::CONNREFUSED), Some(Errno::NOENT)].contains(&connect(path).err())
}

/// Connects without waiting; the connection is closed when the result is dropped.
fn connect(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::Pidfile;
    use std::os::unix::net::{UnixListener, UnixStream};

    fn folder(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("alias-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        dir
    }

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn links_come_and_go() {
        let dir = folder("links");
        let (pidfile, control) = (dir.join("own.pid"), dir.join("own.1.ctl"));
        let held = Pidfile::take(&pidfile, false).unwrap();
        let _listener = UnixListener::bind(&control).unwrap();
        std::fs::write(dir.join("other.pid"), "999999\n").unwrap();
        let first = Alias::take(&dir, "other", &pidfile, Some(&control)).unwrap();
        // The previous daemon's link already points to our own file.
        let again = Alias::take(&dir, "other", &pidfile, Some(&control)).unwrap();
        assert_eq!(std::fs::read_link(dir.join("other.pid")).unwrap(), Path::new("own.pid"));
        assert!(UnixStream::connect(dir.join(format!("other.{}.ctl", std::process::id()))).is_ok());
        drop(again);
        drop(first);
        assert_eq!(names(&dir), ["own.1.ctl", "own.pid"]);
        drop(held);
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn only_the_dead_are_removed() {
        let dir = folder("stale");
        drop(UnixListener::bind(dir.join("own.1.ctl")).unwrap());
        let _alive = UnixListener::bind(dir.join("own.2.ctl")).unwrap();
        drop(UnixListener::bind(dir.join("other.3.ctl")).unwrap());
        for (target, link) in [("own.1.ctl", "other.1.ctl"), ("own.2.ctl", "other.2.ctl")] {
            symlink(target, dir.join(link)).unwrap();
        }
        std::fs::write(dir.join("own.x.ctl"), "").unwrap();
        remove_stale(&dir, "own", "other", None);
        assert_eq!(names(&dir), ["other.2.ctl", "other.3.ctl", "own.2.ctl", "own.x.ctl"]);
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn links_of_earlier_daemons_to_the_same_path_are_removed() {
        let dir = folder("same-path");
        let control = dir.join("own.ctl");
        let _listener = UnixListener::bind(&control).unwrap();
        for pid in 1..9 {
            symlink("own.ctl", dir.join(format!("other.{pid}.ctl"))).unwrap();
        }
        remove_stale(&dir, "own", "other", Some(&control));
        assert_eq!(names(&dir), ["own.ctl"]);
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_listener_with_a_full_backlog_is_alive_and_not_waited_for() {
        let dir = folder("full");
        let path = dir.join("own.1.ctl");
        let listener = UnixListener::bind(&path).unwrap();
        rustix::net::listen(&listener, 1).unwrap();
        let mut waiting = Vec::new();
        while let Ok(socket) = connect(&path) {
            waiting.push(socket);
        }
        remove_stale(&dir, "own", "other", None);
        assert_eq!(names(&dir), ["own.1.ctl"]);
        std::fs::remove_dir_all(dir).unwrap();
    }
}
