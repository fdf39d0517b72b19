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
    /// Starts to connect. `connect_progress` returns the result; until then wait for the socket as
    /// `connect_waits_for_write` says.
    pub fn connect(target: &Target) -> io::Result<Stream> {
        match target {
            Target::Unix(path) => {
                let fd = socket(AddressFamily::UNIX)?;
                let at = unix_path::resolve(path)?;
                let connecting = started(rustix::net::connect(&fd, &at.addr))?;
                Ok(Stream { socket: Socket(fd), name: target.to_string(), connecting, tls: None })
            }
            Target::Tcp(addr) | Target::Ssl(addr) => {
                let tls = match target {
                    Target::Ssl(_) => Some(Box::new(TlsSession::client(addr.ip())?)),
                    _ => None,
                };
                let fd = socket(family(addr))?;
                set_tcp_nodelay(&fd, true)?;
                let connecting = started(rustix::net::connect(&fd, addr))?;
                Ok(Stream { socket: Socket(fd), name: target.to_string(), connecting, tls })
            }
            Target::PUnix(_) | Target::PTcp(_) | Target::PSsl(_) => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    pub(crate) fn accepted(fd: OwnedFd, name: String) -> Stream {
        Stream { socket: Socket(fd), name, connecting: false, tls: None }
    }

    /// The stream of a client of a `pssl:` socket; the handshake is made by reads.
    pub(crate) fn accepted_tls(fd: OwnedFd, name: String) -> io::Result<Stream> {
        let tls = Some(Box::new(TlsSession::server()?));
        Ok(Stream { tls, ..Stream::accepted(fd, name) })
    }

    /// Two connected streams within this process.
    pub fn pair() -> io::Result<(Stream, Stream)> {
        let (a, b) = UnixStream::pair()?;
        let end =
            |s: UnixStream| s.set_nonblocking(true).map(|()| Stream::accepted(s.into(), "unix:pair".into()));
        Ok((end(a)?, end(b)?))
    }

    /// Continues to connect: true once connected, false while in progress; the error if the attempt failed.
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

    /// Returns whether an attempt continues when the socket is writable (true) or readable (false).
    pub fn connect_waits_for_write(&self) -> bool {
        self.connecting || self.tls.as_ref().is_none_or(|tls| tls.wants_write())
    }

    /// Returns whether the peer has closed the connection. A peer that only ended its sending direction has
    /// not closed it; over TCP the two cannot be distinguished until something is sent, so false is returned.
    pub fn has_hung_up(&self) -> bool {
        let mut fds = [PollFd::new(&self.socket.0, PollFlags::empty())];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let heard = poll(&mut fds, Some(&at_once)).is_ok();
        heard && fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)
    }

    /// Ends the sending direction: the peer reads the end of the stream after what was sent before. What it still sends can be read.
    /// For streams without TLS.
    pub fn end_sending(&self) -> io::Result<()> {
        Ok(rustix::net::shutdown(&self.socket.0, rustix::net::Shutdown::Write)?)
    }

    /// The name of the peer: the target, `unix#0`, `tcp:127.0.0.1:1234`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The common name in the peer's certificate, once it is received.
    pub fn peer_id(&self) -> Option<&str> {
        self.tls.as_ref()?.peer_id()
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

    /// `WouldBlock`: accepted bytes are not sent yet.
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

fn started(result: Result<(), Errno>) -> io::Result<bool> {
    match result {
        Ok(()) => Ok(false),
        Err(Errno::INPROGRESS | Errno::INTR) => Ok(true),
        Err(e) => Err(e.into()),
    }
}
