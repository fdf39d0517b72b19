//! A non-blocking byte stream that is connected or connecting.

use crate::target::Target;
use crate::tls::session::TlsSession;
use crate::unix_path;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::{set_tcp_nodelay, socket_error};
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType};
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// A stream; reads and writes return `WouldBlock` instead of waiting.
#[derive(Debug)]
pub struct Stream {
    socket: Socket,
    name: String,
    connecting: bool,
    tls: Option<Box<TlsSession>>,
}

#[derive(Debug)]
struct Socket(OwnedFd);

impl Stream {
    /// Starts to connect. `connect_progress` returns the result. Until then, wait until the socket is writable or readable,
    /// depending on `connect_waits_for_write`.
    pub fn connect(target: &Target) -> io::Result<Stream> {
        match target {
            Target::Unix(path) => {
                let fd = socket(AddressFamily::UNIX)?;
                let resolved = unix_path::resolve(path)?;
                let connecting = is_in_progress(rustix::net::connect(&fd, &resolved.addr))?;
                Ok(Stream { socket: Socket(fd), name: target.to_string(), connecting, tls: None })
            }
            Target::Tcp(addr) | Target::Ssl(addr) => {
                let tls = match target {
                    Target::Ssl(_) => Some(Box::new(TlsSession::client(addr.ip())?)),
                    _ => None,
                };
                let fd = socket(family(addr))?;
                set_tcp_nodelay(&fd, true)?;
                let connecting = is_in_progress(rustix::net::connect(&fd, addr))?;
                Ok(Stream { socket: Socket(fd), name: target.to_string(), connecting, tls })
            }
            Target::PUnix(_) | Target::PTcp(_) | Target::PSsl(_) => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    /// Whether the stream is encrypted.
    pub fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    pub(crate) fn accepted(fd: OwnedFd, name: String) -> Stream {
        Stream { socket: Socket(fd), name, connecting: false, tls: None }
    }

    /// Creates the stream of a client of a `pssl:` socket. Reads perform the handshake.
    pub(crate) fn accepted_tls(fd: OwnedFd, name: String) -> io::Result<Stream> {
        let tls = Some(Box::new(TlsSession::server()?));
        Ok(Stream { tls, ..Stream::accepted(fd, name) })
    }

    /// Creates two streams that are connected to each other.
    pub fn pair() -> io::Result<(Stream, Stream)> {
        let (a, b) = UnixStream::pair()?;
        let end =
            |s: UnixStream| s.set_nonblocking(true).map(|()| Stream::accepted(s.into(), "unix:pair".into()));
        Ok((end(a)?, end(b)?))
    }

    /// Continues to connect. Returns true once connected, false while in progress, or the error of a failed attempt.
    pub fn connect_progress(&mut self) -> io::Result<bool> {
        if self.connecting {
            let mut fds = [PollFd::new(&self.socket.0, PollFlags::OUT)];
            let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
            if poll(&mut fds, Some(&at_once))? == 0 {
                return Ok(false);
            }
            socket_error(&self.socket.0)??;
            self.connecting = false;
        }
        self.tls.as_mut().map_or(Ok(true), |tls| tls.handshake(&mut self.socket))
    }

    /// Returns whether the attempt waits until the socket is writable. If not, it waits until the socket is readable.
    pub fn connect_waits_for_write(&self) -> bool {
        self.connecting || self.tls.as_ref().is_none_or(|tls| tls.wants_write())
    }

    /// Returns whether the peer has closed the connection, not only its sending direction. Over TCP the
    /// two cases look the same until the peer answers sent data with a reset (RST); until then, this returns
    /// false.
    pub fn has_hung_up(&self) -> bool {
        let mut fds = [PollFd::new(&self.socket.0, PollFlags::empty())];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let polled = poll(&mut fds, Some(&at_once)).is_ok();
        polled && fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)
    }

    /// Closes the sending direction of a stream without TLS. The peer then reads the end of the stream after all bytes sent
    /// before. Bytes from the peer can still be read.
    pub fn end_sending(&self) -> io::Result<()> {
        Ok(rustix::net::shutdown(&self.socket.0, rustix::net::Shutdown::Write)?)
    }

    /// The name of the peer: the target, or for an accepted stream a name such as `unix#0` or `tcp:127.0.0.1:1234`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The common name in the peer's certificate, once it is received.
    pub fn peer_common_name(&self) -> Option<&str> {
        self.tls.as_ref()?.peer_common_name()
    }

    /// The peer's address, for TCP.
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        SocketAddr::try_from(rustix::net::getpeername(&self.socket.0).ok()??).ok()
    }

    /// The local address, for TCP.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        SocketAddr::try_from(rustix::net::getsockname(&self.socket.0).ok()?).ok()
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.0.as_fd()
    }
}

impl Read for Stream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match &mut self.tls {
            Some(tls) => tls.read(&mut self.socket, buf),
            None => self.socket.read(buf),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        match &mut self.tls {
            Some(tls) => tls.write(&mut self.socket, buf),
            None => self.socket.write(buf),
        }
    }

    /// The error is `WouldBlock` if accepted bytes are not sent yet.
    fn flush(&mut self) -> io::Result<()> {
        let Some(tls) = &mut self.tls else { return Ok(()) };
        tls.send(&mut self.socket)?;
        if tls.wants_write() { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
    }
}

impl Read for Socket {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::read(&self.0, buf)?)
    }
}

impl Write for Socket {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        Ok(rustix::net::send(&self.0, buf, SendFlags::NOSIGNAL)?)
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

/// Converts the result of `connect`; true means that the attempt is in progress.
fn is_in_progress(result: Result<(), Errno>) -> io::Result<bool> {
    match result {
        Ok(()) => Ok(false),
        Err(Errno::INPROGRESS | Errno::INTR) => Ok(true),
        Err(e) => Err(e.into()),
    }
}
