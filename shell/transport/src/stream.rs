//! A non-blocking, connected (or connecting) byte stream.

use crate::target::Target;
use crate::unix_path;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::{set_tcp_nodelay, socket_error};
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType};
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// A stream; reading and writing return `WouldBlock` rather than wait.
#[derive(Debug)]
pub struct Stream {
    fd: OwnedFd,
    name: String,
    connecting: bool,
}

impl Stream {
    /// Starts to connect. Whether it has worked out is told by `connect_progress`; until then
    /// wait for `Interest::Write`.
    pub fn connect(target: &Target) -> io::Result<Stream> {
        match target {
            Target::Unix(path) => {
                let fd = socket(AddressFamily::UNIX)?;
                let at = unix_path::resolve(path)?;
                let connecting = started(rustix::net::connect(&fd, &at.addr))?;
                Ok(Stream { fd, name: target.to_string(), connecting })
            }
            Target::Tcp(addr) => {
                let fd = socket(family(addr))?;
                set_tcp_nodelay(&fd, true)?;
                let connecting = started(rustix::net::connect(&fd, addr))?;
                Ok(Stream { fd, name: target.to_string(), connecting })
            }
            Target::PUnix(_) | Target::PTcp(_) => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    pub(crate) fn accepted(fd: OwnedFd, name: String) -> Stream {
        Stream { fd, name, connecting: false }
    }

    /// Two ends of one connection, in this process.
    pub fn pair() -> io::Result<(Stream, Stream)> {
        let (a, b) = UnixStream::pair()?;
        let end =
            |s: UnixStream| s.set_nonblocking(true).map(|()| Stream::accepted(s.into(), "unix:pair".into()));
        Ok((end(a)?, end(b)?))
    }

    /// True once connected, false while that is under way; the error of a failed attempt.
    pub fn connect_progress(&mut self) -> io::Result<bool> {
        if !self.connecting {
            return Ok(true);
        }
        let mut fds = [PollFd::new(&self.fd, PollFlags::OUT)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        if poll(&mut fds, Some(&at_once))? == 0 {
            return Ok(false);
        }
        socket_error(&self.fd)??;
        self.connecting = false;
        Ok(true)
    }

    /// Who is at the other end: the target, `unix#0`, `tcp:127.0.0.1:1234`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Address of the other end, if it is TCP.
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        SocketAddr::try_from(rustix::net::getpeername(&self.fd).ok()??).ok()
    }

    /// Address of this end, if it is TCP.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        SocketAddr::try_from(rustix::net::getsockname(&self.fd).ok()?).ok()
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Read for Stream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::read(&self.fd, buf)?)
    }
}

impl Write for Stream {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        Ok(rustix::net::send(&self.fd, buf, SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub(crate) fn family(addr: &SocketAddr) -> AddressFamily {
    if addr.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 }
}

pub(crate) fn socket(family: AddressFamily) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    Ok(rustix::net::socket_with(family, SocketType::STREAM, flags, None)?)
}

fn started(result: Result<(), Errno>) -> io::Result<bool> {
    match result {
        Ok(()) => Ok(false),
        Err(Errno::INPROGRESS | Errno::INTR) => Ok(true),
        Err(e) => Err(e.into()),
    }
}
