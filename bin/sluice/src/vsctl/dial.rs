//! Getting a stream to a database server, by calling it or by waiting for its call.

use runtime::Dirs;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::time::Duration;

/// The port that databases listen on by custom.
const DEFAULT_PORT: u16 = 6640;

/// A connected socket.
pub enum Stream {
    /// On this machine.
    Unix(UnixStream),
    /// Over a network.
    Tcp(TcpStream),
}

impl Stream {
    /// How long to wait for bytes; none for ever.
    pub fn set_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match self {
            Stream::Unix(s) => s.set_read_timeout(timeout),
            Stream::Tcp(s) => s.set_read_timeout(timeout),
        }
    }

    /// Waits for bytes.
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(s) => s.read(buffer),
            Stream::Tcp(s) => s.read(buffer),
        }
    }

    /// Sends bytes.
    pub fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Stream::Unix(s) => s.write_all(bytes),
            Stream::Tcp(s) => s.write_all(bytes),
        }
    }
}

/// A stream to `remote`, got within `timeout`.
pub fn dial(remote: &str, dirs: &Dirs, timeout: Option<Duration>) -> io::Result<Stream> {
    let (method, place) = remote.split_once(':').ok_or_else(unsupported)?;
    match method {
        "unix" => UnixStream::connect(dirs.in_run(place)).map(Stream::Unix),
        "tcp" => {
            let (host, port) = host_and_port(place).ok_or_else(unsupported)?;
            connect_tcp((host, port), timeout).map(Stream::Tcp)
        }
        "punix" => accept_unix(dirs.in_run(place), timeout),
        "ptcp" => {
            let (port, host) = port_and_host(place).ok_or_else(unsupported)?;
            let listener = TcpListener::bind((host, port))?;
            await_call(&listener, timeout)?;
            Ok(Stream::Tcp(listener.accept()?.0))
        }
        _ => Err(unsupported()),
    }
}

/// Calls the first address that answers.
fn connect_tcp(place: (&str, u16), timeout: Option<Duration>) -> io::Result<TcpStream> {
    let mut why = unsupported();
    for address in place.to_socket_addrs()? {
        let called = match timeout {
            Some(timeout) => TcpStream::connect_timeout(&address, timeout),
            None => TcpStream::connect(address),
        };
        match called {
            Ok(stream) => return stream.set_nodelay(true).map(|()| stream),
            Err(error) => why = error,
        }
    }
    Err(why)
}

/// Whether the server at `remote` is to call.
pub fn is_passive(remote: &str) -> bool {
    remote.starts_with("punix:") || remote.starts_with("ptcp:")
}

fn accept_unix(path: PathBuf, timeout: Option<Duration>) -> io::Result<Stream> {
    let listener = UnixListener::bind(&path)?;
    let called = await_call(&listener, timeout).and_then(|()| listener.accept());
    // One call is all there will be.
    std::fs::remove_file(&path)?;
    called.map(|(stream, _)| Stream::Unix(stream))
}

fn await_call(listener: &impl AsFd, timeout: Option<Duration>) -> io::Result<()> {
    let timeout = timeout.map(|t| Timespec { tv_sec: t.as_secs() as i64, tv_nsec: t.subsec_nanos().into() });
    let mut waits = [PollFd::new(listener, PollFlags::IN)];
    match poll(&mut waits, timeout.as_ref())? {
        0 => Err(ErrorKind::TimedOut.into()),
        _ => Ok(()),
    }
}

/// Takes `HOST[:PORT]` apart; a host with colons stands in brackets.
fn host_and_port(text: &str) -> Option<(&str, u16)> {
    let (host, rest) = match text.strip_prefix('[') {
        Some(inner) => inner.split_once(']')?,
        None => text.split_at(text.find(':').unwrap_or(text.len())),
    };
    let port = match rest.strip_prefix(':') {
        Some(port) => port.parse().ok()?,
        None => DEFAULT_PORT,
    };
    Some((host, port))
}

/// Takes `[PORT][:HOST]` apart.
fn port_and_host(text: &str) -> Option<(u16, &str)> {
    let (port, host) = text.split_once(':').unwrap_or((text, "0.0.0.0"));
    let port = if port.is_empty() { DEFAULT_PORT } else { port.parse().ok()? };
    let host = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
    Some((port, host))
}

/// The error for a method of connecting that there is not.
pub fn unsupported() -> io::Error {
    rustix::io::Errno::AFNOSUPPORT.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places() {
        assert_eq!(host_and_port("1.2.3.4:7"), Some(("1.2.3.4", 7)));
        assert_eq!(host_and_port("h"), Some(("h", 6640)));
        assert_eq!(host_and_port("[::1]:7"), Some(("::1", 7)));
        assert_eq!(host_and_port("h:x"), None);
        assert_eq!(port_and_host("7:[::1]"), Some((7, "::1")));
        assert_eq!(port_and_host(""), Some((6640, "0.0.0.0")));
    }
}
