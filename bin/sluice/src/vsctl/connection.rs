//! A connection to the database server that waits: one thread, one socket, and the copy of
//! the database that it feeds.

use ovsdb::replica::{Config, TransactionResult};
use ovsdb::{Message, Operation, Replica, Splitter};
use runtime::Dirs;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Longest message taken from a server: a copy of a whole database is one message.
const MAX_MESSAGE: usize = 1 << 30;
/// Pause between two attempts to connect.
const RETRY: Duration = Duration::from_secs(1);

/// Why the server cannot be talked to.
#[derive(Debug)]
pub enum Broken {
    /// The connection failed; the reason is for the user.
    Connection(String),
    /// Time is up.
    TimeOut,
}

enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Stream {
    fn set_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match self {
            Stream::Unix(s) => s.set_read_timeout(timeout),
            Stream::Tcp(s) => s.set_read_timeout(timeout),
        }
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(s) => s.read(buffer),
            Stream::Tcp(s) => s.read(buffer),
        }
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Stream::Unix(s) => s.write_all(bytes),
            Stream::Tcp(s) => s.write_all(bytes),
        }
    }
}

/// The connection and the copy.
pub struct Connection<'a> {
    /// The copy.
    pub replica: Replica,
    /// Whether to connect again when the connection fails.
    pub persistent: bool,
    remotes: &'a str,
    dirs: &'a Dirs,
    stream: Option<Stream>,
    splitter: Splitter,
    deadline: Option<Instant>,
}

impl<'a> Connection<'a> {
    /// Not connected; `remotes` are places of the server, with commas between.
    pub fn new(remotes: &'a str, dirs: &'a Dirs, config: Config, deadline: Option<Instant>) -> Self {
        Connection {
            replica: Replica::new(config),
            persistent: false,
            remotes,
            dirs,
            stream: None,
            splitter: Splitter::new(MAX_MESSAGE),
            deadline,
        }
    }

    /// Waits until the copy is current and has changed since `seqno`.
    pub fn wait_for_change(&mut self, seqno: u64) -> Result<(), Broken> {
        while !self.replica.is_synced() || self.replica.seqno() == seqno {
            self.step()?;
        }
        Ok(())
    }

    /// Carries out a transaction.
    pub fn transact(&mut self, operations: &[Operation]) -> Result<TransactionResult, Broken> {
        let Some(id) = self.replica.transact(operations) else { return Ok(TransactionResult::TryAgain) };
        loop {
            while let Some((done, result)) = self.replica.poll_result() {
                if done == id {
                    return Ok(result);
                }
            }
            self.step()?;
        }
    }

    /// Sends what is due and takes in what comes next.
    fn step(&mut self) -> Result<(), Broken> {
        match self.try_step() {
            Ok(()) => Ok(()),
            Err(Broken::Connection(_)) if self.persistent => {
                self.stream = None;
                self.replica.disconnected();
                std::thread::sleep(self.time_left()?.map_or(RETRY, |left| left.min(RETRY)));
                self.time_left().map(|_| ())
            }
            Err(broken) => Err(broken),
        }
    }

    fn try_step(&mut self) -> Result<(), Broken> {
        let timeout = self.time_left()?;
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => {
                let stream = self.connect()?;
                self.splitter = Splitter::new(MAX_MESSAGE);
                self.replica.connected();
                stream
            }
        };
        let failed = |e: io::Error| match e.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => Broken::TimeOut,
            _ => Broken::Connection(runtime::error_text(&e)),
        };
        while let Some(message) = self.replica.poll_send() {
            stream.write_all(message.to_string().as_bytes()).map_err(failed)?;
        }
        stream.set_timeout(timeout).map_err(failed)?;
        let mut buffer = [0; 65536];
        let count = loop {
            match stream.read(&mut buffer) {
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                result => break result.map_err(failed)?,
            }
        };
        if count == 0 {
            return Err(Broken::Connection("End of file".into()));
        }
        self.splitter.push(buffer.get(..count).unwrap_or_default());
        while let Some(json) = self.splitter.next_value().map_err(protocol)? {
            let message = Message::from_json(json).map_err(protocol)?;
            self.replica.receive(message).map_err(protocol)?;
        }
        self.stream = Some(stream);
        Ok(())
    }

    /// How long there is left; none for ever.
    fn time_left(&self) -> Result<Option<Duration>, Broken> {
        let Some(deadline) = self.deadline else { return Ok(None) };
        match deadline.checked_duration_since(Instant::now()) {
            Some(left) if !left.is_zero() => Ok(Some(left)),
            _ => Err(Broken::TimeOut),
        }
    }

    /// Connects to the first remote that answers.
    fn connect(&self) -> Result<Stream, Broken> {
        let mut why = unsupported();
        for remote in self.remotes.split(',') {
            match self.connect_to(remote.trim()) {
                Ok(stream) => return Ok(stream),
                Err(error) => why = error,
            }
        }
        Err(Broken::Connection(runtime::error_text(&why)))
    }

    fn connect_to(&self, remote: &str) -> io::Result<Stream> {
        if let Some(path) = remote.strip_prefix("unix:") {
            return UnixStream::connect(self.dirs.in_run(path)).map(Stream::Unix);
        }
        let (host, port) = remote.strip_prefix("tcp:").and_then(host_and_port).ok_or_else(unsupported)?;
        let stream = TcpStream::connect((host, port))?;
        stream.set_nodelay(true)?;
        Ok(Stream::Tcp(stream))
    }
}

/// The port that databases listen on by custom.
const DEFAULT_PORT: u16 = 6640;

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

fn unsupported() -> io::Error {
    rustix::io::Errno::AFNOSUPPORT.into()
}

fn protocol(error: impl std::fmt::Display) -> Broken {
    Broken::Connection(format!("protocol error: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remotes() {
        assert_eq!(host_and_port("1.2.3.4:7"), Some(("1.2.3.4", 7)));
        assert_eq!(host_and_port("h"), Some(("h", 6640)));
        assert_eq!(host_and_port("[::1]:7"), Some(("::1", 7)));
        assert_eq!(host_and_port("h:x"), None);
    }
}
