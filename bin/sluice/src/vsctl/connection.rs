//! A blocking connection to the database server, which keeps a copy of the database up to date.

use crate::remote::{self, Stream};
use ovsdb::replica::{Config, TransactionResult};
use ovsdb::stream::Limits;
use ovsdb::{Message, Operation, Replica, Splitter};
use runtime::Dirs;
use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

/// Longest message, in bytes. The limit is high, because a copy of a complete database is one message.
const MAX_MESSAGE: usize = 1 << 30;
/// Pause between two attempts to connect.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Why the server cannot be used.
#[derive(Debug)]
pub enum ConnectionError {
    /// The connection failed, for this reason.
    Connection(String),
    /// The timeout has passed.
    TimeOut,
}

/// The connection and its copy of the database.
pub struct Connection<'a> {
    /// The copy of the database.
    pub replica: Replica,
    /// Whether to reconnect when the connection fails.
    pub persistent: bool,
    remotes: &'a str,
    dirs: &'a Dirs,
    stream: Option<Stream>,
    splitter: Splitter,
    deadline: Option<Instant>,
}

impl<'a> Connection<'a> {
    /// A connection that is not connected yet; `remotes` are the server's addresses, separated by commas.
    pub fn new(remotes: &'a str, dirs: &'a Dirs, config: Config, deadline: Option<Instant>) -> Self {
        Connection {
            replica: Replica::new(config),
            persistent: false,
            remotes,
            dirs,
            stream: None,
            splitter: Splitter::new(Limits::of_bytes(MAX_MESSAGE)),
            deadline,
        }
    }

    /// Waits until the copy is complete and its sequence number differs from `seqno`.
    pub fn wait_for_change(&mut self, seqno: u64) -> Result<(), ConnectionError> {
        while !self.replica.is_synced() || self.replica.seqno() == seqno {
            self.step()?;
        }
        Ok(())
    }

    /// Executes a transaction and waits for its result.
    pub fn transact(&mut self, operations: &[Operation]) -> Result<TransactionResult, ConnectionError> {
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

    /// Connects if necessary, sends pending messages, and processes the next message of the server.
    fn step(&mut self) -> Result<(), ConnectionError> {
        match self.try_step() {
            Ok(()) => Ok(()),
            Err(ConnectionError::Connection(_)) if self.persistent => {
                self.stream = None;
                self.replica.disconnected();
                std::thread::sleep(self.time_left()?.map_or(RETRY_INTERVAL, |left| left.min(RETRY_INTERVAL)));
                self.time_left().map(|_| ())
            }
            Err(broken) => Err(broken),
        }
    }

    fn try_step(&mut self) -> Result<(), ConnectionError> {
        self.time_left()?;
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => {
                let stream = self.connect()?;
                self.splitter = Splitter::new(Limits::of_bytes(MAX_MESSAGE));
                self.replica.connected();
                stream
            }
        };
        let failed = |e: io::Error| match e.kind() {
            ErrorKind::TimedOut if e.raw_os_error().is_none() => ConnectionError::TimeOut,
            _ => ConnectionError::Connection(runtime::error_text(&e)),
        };
        while let Some(message) = self.replica.poll_send() {
            stream.send(message.to_string().as_bytes()).map_err(failed)?;
        }
        let mut buffer = [0; 65536];
        let count = stream.receive(&mut buffer).map_err(failed)?;
        if count == 0 {
            return Err(ConnectionError::Connection("End of file".into()));
        }
        self.splitter.push(buffer.get(..count).unwrap_or_default());
        while let Some(json) = self.splitter.next_value().map_err(protocol)? {
            let message = Message::from_json(json).map_err(protocol)?;
            self.replica.receive(message).map_err(protocol)?;
        }
        self.stream = Some(stream);
        Ok(())
    }

    /// The time until the timeout; `None` without one.
    fn time_left(&self) -> Result<Option<Duration>, ConnectionError> {
        let Some(deadline) = self.deadline else { return Ok(None) };
        match deadline.checked_duration_since(Instant::now()) {
            Some(left) if !left.is_zero() => Ok(Some(left)),
            _ => Err(ConnectionError::TimeOut),
        }
    }

    /// Connects to the first remote that answers.
    fn connect(&self) -> Result<Stream, ConnectionError> {
        let mut why = remote::unsupported();
        for text in self.remotes.split(',') {
            let targets = remote::targets(text.trim(), transport::OVSDB_PORT, self.dirs).unwrap_or_default();
            for target in targets {
                match Stream::open(&target, self.deadline) {
                    Ok(stream) => return Ok(stream),
                    // Timeouts of the network have a system error number; without one, the deadline has passed.
                    Err(error) if error.kind() == ErrorKind::TimedOut && error.raw_os_error().is_none() => {
                        return Err(ConnectionError::TimeOut);
                    }
                    Err(error) => why = error,
                }
            }
        }
        Err(ConnectionError::Connection(runtime::error_text(&why)))
    }
}

fn protocol(error: impl std::fmt::Display) -> ConnectionError {
    ConnectionError::Connection(format!("protocol error: {error}"))
}
