//! Blocking streams to databases and switches, and the TLS options.
//!
//! A tool does one thing at a time, so its streams can block.

use crate::getopt::{Opt, Takes, opt};
use runtime::{Dirs, Module};
use rustix::io::Errno;
use std::io::{self, ErrorKind};
use std::net::ToSocketAddrs;
use std::os::fd::AsFd;
use std::time::Instant;
use transport::tls::{Files, configure};
use transport::{BlockingStream, Target, TargetError};

static STREAM_SSL: Module = Module::new("stream_ssl");

/// The TLS options of tools with connections.
pub const TLS: [Opt; 8] = [
    opt("private-key", Some('p'), Takes::Value).described("FILE", "private key, for connections over TLS"),
    opt("certificate", Some('c'), Takes::Value)
        .described("FILE", "certificate of that key (X.509 version 3)"),
    opt("ca-cert", Some('C'), Takes::Value)
        .described("FILE", "certificates of the authorities that may sign the peer's certificate"),
    opt("bootstrap-ca-cert", None, Takes::Value).described(
        "FILE",
        "like --ca-cert; if FILE is missing, the authority of the first peer is stored in it",
    ),
    opt("ssl-protocols", None, Takes::Value)
        .described("LIST", "versions of TLS, such as TLSv1.3 (default: 1.2 and 1.3)"),
    opt("ssl-ciphers", None, Takes::Value).described("LIST", "ciphers for TLS 1.2"),
    opt("ssl-ciphersuites", None, Takes::Value).described("LIST", "ciphers for TLS 1.3"),
    opt("ssl-server-name", None, Takes::Value),
];

/// The values of the options [`TLS`].
#[derive(Clone, Debug, Default)]
pub struct TlsOptions(Files);

impl TlsOptions {
    /// Handles one of the `TLS` options; returns false for another option.
    pub fn handle_option(&mut self, name: &str, value: Option<&str>) -> bool {
        if name == "ssl-server-name" {
            // The option has no effect, because only the chain of a certificate is checked and not the name in it.
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

/// A [`BlockingStream`] that reports TLS errors as system error numbers.
#[derive(Debug)]
pub struct Stream(BlockingStream);

impl Stream {
    /// Connects to a target, or listens there and waits for a connection.
    pub fn open(target: &Target, deadline: Option<Instant>) -> io::Result<Stream> {
        let again = |e: &io::Error| e.kind() == ErrorKind::ConnectionReset && e.get_ref().is_some();
        match BlockingStream::open(target, deadline) {
            // With `--bootstrap-ca-cert` the first connection only stores the peer's authority and is then closed, so connect again.
            Err(e) if again(&e) => BlockingStream::open(target, deadline),
            other => other,
        }
        .map(Stream)
        .map_err(with_system_number)
    }

    /// Sends all bytes.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.send(bytes).map_err(with_system_number)
    }

    /// Waits for bytes; returns 0 at the end of the stream.
    pub fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.receive(buffer).map_err(with_system_number)
    }

    /// Reads available bytes: 0 at the end of the stream, `None` if there are none yet.
    pub fn receive_now(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        self.0.receive_now(buffer).map_err(with_system_number)
    }

    /// The socket, to wait for more bytes.
    pub fn socket(&self) -> &impl AsFd {
        self.0.socket()
    }
}

/// Replaces TLS errors by system error numbers, because users and scripts know the texts of these numbers; logs the
/// cause.
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

/// The targets for a text: one target, or one for each address of a host name. Paths are relative to the run directory.
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

/// Returns whether the target is passive: the tool waits for the peer to connect.
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
}
