//! Blocking streams to databases and switches, and the TLS options.
//!
//! A tool does one thing at a time, so this module waits for the non-blocking streams of `transport`. For a
//! passive target (`punix:`, `ptcp:`, `pssl:`) one connection is accepted, and the listening socket is
//! closed.

use crate::getopt::{Opt, Takes, opt};
use runtime::{Dirs, Module};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io::{self, ErrorKind, Read, Write};
use std::net::ToSocketAddrs;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};
use transport::tls::{Files, configure};
use transport::{Listener, Target, TargetError};

static STREAM_SSL: Module = Module::new("stream_ssl");
/// Time after which a connection to a Unix socket with a full backlog is tried again.
const RETRY: Duration = Duration::from_millis(10);

/// The TLS options of tools with connections.
pub const TLS: [Opt; 8] = [
    opt("private-key", Some('p'), Takes::Value).says("FILE", "private key, for connections over TLS"),
    opt("certificate", Some('c'), Takes::Value).says("FILE", "certificate of that key (X.509 version 3)"),
    opt("ca-cert", Some('C'), Takes::Value)
        .says("FILE", "certificates of the authorities that may sign the peer's certificate"),
    opt("bootstrap-ca-cert", None, Takes::Value)
        .says("FILE", "like --ca-cert; if FILE is missing, the authority of the first peer is stored in it"),
    opt("ssl-protocols", None, Takes::Value)
        .says("LIST", "versions of TLS, such as TLSv1.3 (default: 1.2 and 1.3)"),
    opt("ssl-ciphers", None, Takes::Value).says("LIST", "ciphers for TLS 1.2"),
    opt("ssl-ciphersuites", None, Takes::Value).says("LIST", "ciphers for TLS 1.3"),
    opt("ssl-server-name", None, Takes::Value),
];

/// The TLS files that the options name.
#[derive(Clone, Debug, Default)]
pub struct Identity(Files);

impl Identity {
    /// Handles one of the `TLS` options; returns false for another option.
    pub fn take(&mut self, name: &str, value: Option<&str>) -> bool {
        if name == "ssl-server-name" {
            // The name in a certificate is not checked, only its chain.
            runtime::warn!(STREAM_SSL, "--{name} has no effect");
            return true;
        }
        self.0.set(&format!("--{name}"), value.unwrap_or_default())
    }

    /// Applies the options to the process; call once, after all options are parsed.
    pub fn configure(&self) {
        // Errors are reported when a connection needs the files.
        let _ = configure(&self.0);
    }
}

/// A connected stream whose functions wait, until `deadline` if there is one; then the error is `TimedOut`.
#[derive(Debug)]
pub struct Stream {
    stream: transport::Stream,
    /// The end of waiting.
    pub deadline: Option<Instant>,
}

impl Stream {
    /// Connects to a target, or listens there and waits for a connection.
    pub fn open(target: &Target, deadline: Option<Instant>) -> io::Result<Stream> {
        let again = |e: &io::Error| e.kind() == ErrorKind::ConnectionReset && e.get_ref().is_some();
        match Stream::attempt(target, deadline) {
            // The first connection was used up by storing the peer's authority.
            Err(e) if again(&e) => Stream::attempt(target, deadline),
            other => other,
        }
        .map_err(with_system_number)
    }

    fn attempt(target: &Target, deadline: Option<Instant>) -> io::Result<Stream> {
        let stream =
            if target.is_passive() { accept_one(target, deadline)? } else { connect(target, deadline)? };
        let mut this = Stream { stream, deadline };
        while !this.stream.connect_progress()? {
            let writable = this.stream.connect_waits_for_write();
            wait(&this.stream, if writable { PollFlags::OUT } else { PollFlags::IN }, deadline)?;
        }
        Ok(this)
    }

    /// Sends all bytes.
    pub fn send(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.stream.write(bytes) {
                Ok(n) => bytes = bytes.get(n..).unwrap_or_default(),
                Err(e) => self.wait_after(e, PollFlags::OUT)?,
            }
        }
        while let Err(e) = self.stream.flush() {
            self.wait_after(e, PollFlags::OUT)?;
        }
        Ok(())
    }

    /// Waits for bytes; returns 0 at the end of the stream.
    pub fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.receive_now(buffer)? {
                Some(n) => return Ok(n),
                None => wait(&self.stream, PollFlags::IN, self.deadline)?,
            }
        }
    }

    /// Reads available bytes: 0 at the end of the stream, `None` if there are none yet.
    pub fn receive_now(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            match self.stream.read(buffer) {
                Ok(n) => return Ok(Some(n)),
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(with_system_number(e)),
            }
        }
    }

    /// The socket, to wait for more bytes.
    pub fn socket(&self) -> &impl AsFd {
        &self.stream
    }

    /// Waits for the socket if the error is `WouldBlock`.
    fn wait_after(&self, error: io::Error, flags: PollFlags) -> io::Result<()> {
        match error.kind() {
            ErrorKind::WouldBlock => wait(&self.stream, flags, self.deadline),
            ErrorKind::Interrupted => Ok(()),
            _ => Err(with_system_number(error)),
        }
    }
}

/// Connects; a socket whose backlog is full is tried again.
fn connect(target: &Target, deadline: Option<Instant>) -> io::Result<transport::Stream> {
    loop {
        match transport::Stream::connect(target) {
            Err(e) if e.kind() == ErrorKind::WouldBlock => {
                time_left(deadline)?;
                std::thread::sleep(RETRY);
            }
            other => return other,
        }
    }
}

/// Listens at a target, and waits for one connection.
fn accept_one(target: &Target, deadline: Option<Instant>) -> io::Result<transport::Stream> {
    let listener = Listener::bind(target)?;
    loop {
        if let Some(stream) = listener.accept()? {
            return Ok(stream);
        }
        wait(&listener, PollFlags::IN, deadline)?;
    }
}

/// The time until the deadline, `None` without one; an error once it has passed.
pub fn time_left(deadline: Option<Instant>) -> io::Result<Option<Duration>> {
    let left = deadline.map(|d| d.saturating_duration_since(Instant::now()));
    if left == Some(Duration::ZERO) { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}

fn wait(on: &impl AsFd, flags: PollFlags, deadline: Option<Instant>) -> io::Result<()> {
    let timeout = time_left(deadline)?.map(|left| Timespec {
        tv_sec: left.as_secs().min(i32::MAX as u64) as _,
        tv_nsec: left.subsec_nanos() as _,
    });
    match poll(&mut [PollFd::new(on, flags)], timeout.as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(e) => Err(e.into()),
    }
}

/// Replaces TLS errors by the system's error numbers, whose texts users and scripts know; logs the cause.
fn with_system_number(error: io::Error) -> io::Error {
    if error.get_ref().is_none() {
        return error;
    }
    let number = match error.kind() {
        ErrorKind::Unsupported => {
            runtime::err!(STREAM_SSL, "{error}");
            Errno::NOPROTOOPT
        }
        _ => {
            runtime::warn!(STREAM_SSL, "{error}");
            Errno::PROTO
        }
    };
    number.into()
}

/// The targets that a text stands for: one, or one for each address of a host name. Paths are relative to the
/// run directory.
pub fn targets(text: &str, default_port: u16, dirs: &Dirs) -> Result<Vec<Target>, TargetError> {
    let error = match Target::parse(text, default_port) {
        Ok(target) => return Ok(vec![target.within(&dirs.run)]),
        Err(e) => e,
    };
    let (kind, place) = text.split_once(':').unwrap_or_default();
    let (host, port) = match place.split_once(':') {
        Some((host, port)) => (host, port.parse().ok()),
        None => (place, Some(default_port)),
    };
    let make = match kind {
        "tcp" => Target::Tcp,
        "ssl" => Target::Ssl,
        _ => return Err(error),
    };
    let found = match port {
        Some(port) if host.starts_with(|c: char| c.is_ascii_alphabetic()) => (host, port).to_socket_addrs(),
        _ => return Err(error),
    };
    found.map(|list| list.map(make).collect()).map_err(|_| error)
}

/// Returns whether the target is passive: the peer connects to us.
pub fn is_passive(remote: &str) -> bool {
    ["punix:", "ptcp:", "pssl:"].iter().any(|kind| remote.starts_with(kind))
}

/// The error for a target of an unknown kind.
pub fn unsupported() -> io::Error {
    Errno::AFNOSUPPORT.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_have_numbers_or_names() {
        let dirs = Dirs::from_env("sluice");
        let shown = |text: &str| match targets(text, 6640, &dirs) {
            Ok(list) => list.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "),
            Err(e) => e.to_string(),
        };
        assert_eq!(shown("tcp:1.2.3.4"), "tcp:1.2.3.4:6640");
        assert!(shown("ssl:localhost:7").contains(":7"), "{}", shown("ssl:localhost:7"));
        assert_eq!(shown("tcp:localhost:x"), "tcp:localhost:x: bad port number \"x\"");
        assert_eq!(shown("pssl:7:[::1]"), "pssl:7:[::1]");
        assert!(is_passive("pssl:7") && !is_passive("ssl:1.2.3.4"));
    }

    #[test]
    fn both_ways_of_meeting() {
        let path = std::env::temp_dir().join(format!("sluice-remote-{}", std::process::id()));
        let soon = Some(Instant::now() + Duration::from_secs(10));
        let (at, active) = (Target::PUnix(path.clone()), Target::Unix(path));
        let server = std::thread::spawn(move || {
            let mut stream = Stream::open(&at, soon).unwrap();
            let mut buffer = [0; 16];
            let n = stream.receive(&mut buffer).unwrap();
            stream.send(&buffer[..n]).unwrap();
        });
        let mut stream = loop {
            match Stream::open(&active, soon) {
                Ok(stream) => break stream,
                Err(_) => std::thread::sleep(RETRY),
            }
        };
        stream.send(b"hello").unwrap();
        let mut buffer = [0; 16];
        assert_eq!(stream.receive(&mut buffer).unwrap(), 5);
        assert_eq!(stream.receive(&mut buffer).unwrap(), 0);
        server.join().unwrap();
        stream.deadline = Some(Instant::now());
        assert_eq!(time_left(stream.deadline).unwrap_err().kind(), ErrorKind::TimedOut);
    }
}
