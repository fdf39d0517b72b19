//! A listening socket.
//!
//! A Unix socket's file is removed when its listener is dropped. A file that a dead process left behind is replaced.

use crate::stream::{Stream, family, socket};
use crate::target::Target;
use crate::unix_path;
use runtime::WaitSet;
use runtime::poll_loop::{Interest, Readiness, Ready};
use rustix::event::{Timespec, epoll};
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::net::sockopt::{set_socket_reuseaddr, set_tcp_nodelay};
use rustix::net::{AddressFamily, SocketFlags};
use std::fs::{remove_file, symlink_metadata};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Maximum number of connections that wait to be accepted. A client that finds the backlog full tries again only after a
/// second, so with a short backlog, hundreds of clients that connect at the same time would wait for seconds.
const BACKLOG: i32 = 1024;

/// The number of the next client of a Unix socket. Such clients have no address, so they are named by numbers.
static UNIX_CLIENTS: AtomicU64 = AtomicU64::new(0);

/// The number of the next listener.
static LISTENERS: AtomicU64 = AtomicU64::new(0);
/// The largest number of listeners that one call of [`ListenerGroup::ready`] returns.
const READY_MAX: usize = 64;

/// Listeners that are watched by one descriptor, so that the cost of a sleep does not depend on their number.
#[derive(Debug)]
pub struct ListenerGroup {
    epoll: OwnedFd,
}

impl ListenerGroup {
    /// A group without listeners.
    pub fn new() -> io::Result<ListenerGroup> {
        Ok(ListenerGroup { epoll: epoll::create(epoll::CreateFlags::CLOEXEC)? })
    }

    /// Adds a listener. It leaves the group when it is dropped.
    pub fn add(&self, listener: &Listener) -> io::Result<()> {
        let data = epoll::EventData::new_u64(listener.number);
        Ok(epoll::add(&self.epoll, listener, data, epoll::EventFlags::IN)?)
    }

    /// The numbers of listeners with waiting clients, at most [`READY_MAX`].
    pub fn ready(&self) -> io::Result<Vec<u64>> {
        let mut events = Vec::with_capacity(READY_MAX);
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), Some(&zero))?;
        Ok(events.into_iter().map(|event: epoll::Event| event.data.u64()).collect())
    }
}

impl AsFd for ListenerGroup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

/// A non-blocking listening socket.
#[derive(Debug)]
pub struct Listener {
    fd: OwnedFd,
    /// Identifies the listener in its group.
    number: u64,
    file: Option<SocketFile>,
    tls: bool,
    /// Whether a client may be waiting.
    readiness: Readiness,
}

/// The file of a Unix socket. The inode identifies it, so that the file of another process which now listens at the path is
/// not removed.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    id: (u64, u64),
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if file_id(&self.path).is_ok_and(|id| id == self.id) {
            let _ = remove_file(&self.path);
        }
    }
}

fn file_id(path: &Path) -> io::Result<(u64, u64)> {
    symlink_metadata(path).map(|m| (m.dev(), m.ino()))
}

impl Listener {
    /// Listens at a passive target. The error is `AddrInUse` if another process listens there.
    pub fn bind(target: &Target) -> io::Result<Listener> {
        match target {
            Target::PUnix(path) => Listener::bind_unix(path),
            Target::PTcp(addr) => Listener::bind_tcp(addr, false),
            Target::PSsl(addr) => Listener::bind_tcp(addr, true),
            Target::Unix(_) | Target::Tcp(_) | Target::Ssl(_) => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    fn bind_unix(path: &Path) -> io::Result<Listener> {
        if symlink_metadata(path).is_ok_and(|m| m.file_type().is_socket()) {
            let is_dead = Stream::connect(&Target::Unix(path.into()))
                .is_err_and(|e| e.kind() == io::ErrorKind::ConnectionRefused);
            if is_dead {
                remove_file(path)?;
            }
        }
        let fd = socket(AddressFamily::UNIX)?;
        // The socket file gets the mode of the socket: access for owner and group, restricted by the umask.
        rustix::fs::fchmod(&fd, Mode::from_raw_mode(0o770))?;
        let resolved = unix_path::resolve(path)?;
        rustix::net::bind(&fd, &resolved.addr)?;
        let file = SocketFile { path: path.to_path_buf(), id: file_id(path)? };
        rustix::net::listen(&fd, BACKLOG)?;
        Ok(Listener::new(fd, Some(file), false))
    }

    fn bind_tcp(addr: &SocketAddr, tls: bool) -> io::Result<Listener> {
        let fd = socket(family(addr))?;
        set_socket_reuseaddr(&fd, true)?;
        rustix::net::bind(&fd, addr)?;
        rustix::net::listen(&fd, BACKLOG)?;
        Ok(Listener::new(fd, None, tls))
    }

    fn new(fd: OwnedFd, file: Option<SocketFile>, tls: bool) -> Listener {
        let number = LISTENERS.fetch_add(1, Ordering::Relaxed);
        Listener { fd, number, file, tls, readiness: Readiness::default() }
    }

    /// Adds the socket to the events that end the next sleep.
    pub fn wait<'a>(&'a self, set: &mut WaitSet<'a>) {
        self.readiness.wait(set, self, Some(Interest::Read));
    }

    /// Tells the result of a sleep after [`wait`](Self::wait). Without this call, each [`accept`](Self::accept) is a system call.
    pub fn record_sleep(&mut self, ready: &Ready) {
        self.readiness.record_sleep(ready);
    }

    /// Tells which listeners of the group have waiting clients.
    pub fn record_group_sleep(&mut self, ready: &[u64]) {
        self.readiness.set(ready.contains(&self.number));
    }

    /// Accepts the next client; `None` if there is none now.
    pub fn accept(&self) -> io::Result<Option<Stream>> {
        if !self.readiness.may_be_ready() {
            return Ok(None);
        }
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (fd, peer) = match rustix::net::acceptfrom_with(&self.fd, flags) {
            Ok(got) => got,
            // A client that disconnected before it was accepted is ignored.
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => return Ok(None),
            Err(e) => return Err(e.into()),
        };
        if self.file.is_some() {
            let n = UNIX_CLIENTS.fetch_add(1, Ordering::Relaxed);
            return Ok(Some(Stream::accepted(fd, format!("unix#{n}"))));
        }
        // This fails if the peer has disconnected; the first read will report that.
        let _ = set_tcp_nodelay(&fd, true);
        let peer = peer.and_then(|p| SocketAddr::try_from(p).ok());
        let kind = if self.tls { "ssl" } else { "tcp" };
        let name = peer.map_or_else(|| kind.to_string(), |p| format!("{kind}:{p}"));
        let stream = if self.tls { Stream::accepted_tls(fd, name)? } else { Stream::accepted(fd, name) };
        Ok(Some(stream))
    }

    /// The TCP address of the socket, with the port that the system chose for port 0.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        SocketAddr::try_from(rustix::net::getsockname(&self.fd).ok()?).ok()
    }

    /// The path of a Unix socket.
    pub fn path(&self) -> Option<&Path> {
        self.file.as_ref().map(|f| f.path.as_path())
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::fs::PermissionsExt;

    fn dir(name: &str) -> PathBuf {
        let d = std::env::temp_dir().join(format!("transport-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&d);
        std::fs::create_dir_all(&d).unwrap();
        d
    }

    fn talk(listener: &Listener, target: &Target) -> String {
        let mut a = Stream::connect(target).unwrap();
        let mut b = loop {
            if let Some(s) = listener.accept().unwrap() {
                break s;
            }
        };
        while !a.connect_progress().unwrap() {}
        a.write_all(b"hello").unwrap();
        let mut buf = [0; 9];
        let n = loop {
            match b.read(&mut buf) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                got => break got.unwrap(),
            }
        };
        assert_eq!(&buf[..n], b"hello");
        drop(a);
        assert_eq!(b.read(&mut buf).unwrap_or(0), 0);
        b.name().to_string()
    }

    #[test]
    fn a_group_knows_which_listeners_have_clients() {
        let d = dir("group");
        let group = ListenerGroup::new().unwrap();
        let path = |name: &str| d.join(name);
        let bind = |name: &str| Listener::bind(&Target::PUnix(path(name))).unwrap();
        let mut listeners = [bind("a"), bind("b")];
        listeners.iter().for_each(|listener| group.add(listener).unwrap());
        assert!(group.ready().unwrap().is_empty());
        let _client = Stream::connect(&Target::Unix(path("b"))).unwrap();
        let ready = group.ready().unwrap();
        listeners.iter_mut().for_each(|listener| listener.record_group_sleep(&ready));
        let accepted = listeners.each_ref().map(|listener| listener.accept().unwrap().is_some());
        assert_eq!(accepted, [false, true]);
        drop(listeners);
        assert!(group.ready().unwrap().is_empty());
        std::fs::remove_dir_all(d).unwrap();
    }

    #[test]
    fn tcp_both_ways() {
        let listener = Listener::bind(&Target::parse("ptcp:0:127.0.0.1", 0).unwrap()).unwrap();
        let addr = listener.local_addr().unwrap();
        assert!(talk(&listener, &Target::Tcp(addr)).starts_with("tcp:127.0.0.1:"));
        drop(listener);
        let failed = Stream::connect(&Target::Tcp(addr)).and_then(|mut s| {
            while !s.connect_progress()? {}
            Ok(())
        });
        assert_eq!(failed.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    }

    #[test]
    fn unix_file_comes_and_goes() {
        let d = dir("file");
        let path = d.join("s.sock");
        let target = Target::PUnix(path.clone());
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap()); // left by a process that ended
        let listener = Listener::bind(&target).unwrap();
        assert_eq!(symlink_metadata(&path).unwrap().permissions().mode() & 0o007, 0);
        assert!(talk(&listener, &Target::Unix(path.clone())).starts_with("unix#"));
        let second = Listener::bind(&target).unwrap_err();
        assert_eq!(second.kind(), io::ErrorKind::AddrInUse);
        drop(listener);
        assert!(!path.exists());
        std::fs::write(&path, "precious").unwrap();
        assert!(Listener::bind(&target).is_err());
        assert!(path.exists());
        std::fs::remove_dir_all(d).unwrap();
    }

    #[test]
    fn long_unix_paths_work() {
        let d = dir("long").join("x".repeat(90)).join("y".repeat(90));
        std::fs::create_dir_all(&d).unwrap();
        let path = d.join("s.sock");
        let listener = Listener::bind(&Target::PUnix(path.clone())).unwrap();
        talk(&listener, &Target::Unix(path.clone()));
        drop(listener);
        assert!(!path.exists());
    }
}
