//! A blocking connection to the database server, and the copy of the database that it updates.

use crate::remote::{self, Stream};
use ovsdb::replica::{Config, TransactionResult};
use ovsdb::stream::Limits;
use ovsdb::{Message, Operation, Replica, Splitter};
use runtime::Dirs;
use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

/// Longest message, in bytes: a copy of a whole database is one message.
const MAX_MESSAGE: usize = 1 << 30;
/// Pause between two attempts to connect.
const RETRY: Duration = Duration::from_secs(1);

/// Why the server cannot be used.
#[derive(Debug)]
pub enum Broken {
    /// The connection failed; the reason is for the user.
    Connection(String),
    /// The timeout has passed.
    TimeOut,
}

/// The connection and its copy of the database.
pub struct Connection<'a> {
    /// The copy of the database.
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

    /// Waits until the copy is current and has changed since `seqno`.
    pub fn wait_for_change(&mut self, seqno: u64) -> Result<(), Broken> {
        while !self.replica.is_synced() || self.replica.seqno() == seqno {
            self.step()?;
        }
        Ok(())
    }

    /// Executes a transaction and waits for its result.
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

    /// Sends what is due and processes the next message.
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
            ErrorKind::TimedOut if e.raw_os_error().is_none() => Broken::TimeOut,
            _ => Broken::Connection(runtime::error_text(&e)),
        };
        while let Some(message) = self.replica.poll_send() {
            stream.send(message.to_string().as_bytes()).map_err(failed)?;
        }
        let mut buffer = [0; 65536];
        let count = stream.receive(&mut buffer).map_err(failed)?;
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

    /// The time until the timeout; `None` without one.
    fn time_left(&self) -> Result<Option<Duration>, Broken> {
        let Some(deadline) = self.deadline else { return Ok(None) };
        match deadline.checked_duration_since(Instant::now()) {
            Some(left) if !left.is_zero() => Ok(Some(left)),
            _ => Err(Broken::TimeOut),
        }
    }

    /// Connects to the first remote that answers.
    fn connect(&self) -> Result<Stream, Broken> {
        let mut why = remote::unsupported();
        for text in self.remotes.split(',') {
            let targets = remote::targets(text.trim(), transport::OVSDB_PORT, self.dirs).unwrap_or_default();
            for target in targets {
                match Stream::open(&target, self.deadline) {
                    Ok(stream) => return Ok(stream),
                    // Timeouts of the network are system errors; this one is our own.
                    Err(error) if error.kind() == ErrorKind::TimedOut && error.raw_os_error().is_none() => {
                        return Err(Broken::TimeOut);
                    }
                    Err(error) => why = error,
                }
            }
        }
        Err(Broken::Connection(runtime::error_text(&why)))
    }
}

fn protocol(error: impl std::fmt::Display) -> Broken {
    Broken::Connection(format!("protocol error: {error}"))
}
