//! One client: its stream, what it is owed, and what it is waiting for.

use crate::listener::Stream;
use ovsdb::stream::StreamError;
use ovsdb::{Json, Message, Monitor, Splitter};
use std::collections::VecDeque;
use std::io;
use std::time::Instant;

/// The longest message that a client may send, in bytes.
const MAX_MESSAGE_LEN: usize = 64 << 20;
/// A client that leaves so many bytes unread is cut off.
const MAX_BACKLOG_LEN: usize = 256 << 20;
/// While so many bytes are unread, nothing more is taken from a client.
const BUSY_BACKLOG_LEN: usize = 1 << 20;
/// Most monitors of one session.
pub const MAX_MONITORS: usize = 1000;
/// Most transactions of one session that wait for a condition.
pub const MAX_BLOCKED: usize = 1000;
/// Bytes read from one client before the others have their turn.
const READ_LEN: usize = 64 << 10;

/// Tells sessions apart; never used twice.
pub type SessionId = u64;

/// A transaction that waits for its condition.
pub struct Blocked {
    /// ID of the request.
    pub id: Json,
    /// The whole request.
    pub params: Json,
    /// When it came in.
    pub since: Instant,
    /// When it gives up.
    pub deadline: Option<Instant>,
}

/// One client.
pub struct Session {
    pub stream: Box<dyn Stream>,
    splitter: Splitter,
    output: VecDeque<u8>,
    pub monitors: Vec<Monitor>,
    pub blocked: Vec<Blocked>,
    /// Set when the connection is over.
    pub closed: bool,
}

impl Session {
    /// A session on a fresh connection.
    pub fn new(stream: Box<dyn Stream>) -> Session {
        Session {
            stream,
            splitter: Splitter::new(MAX_MESSAGE_LEN),
            output: VecDeque::new(),
            monitors: Vec::new(),
            blocked: Vec::new(),
            closed: false,
        }
    }

    /// Whether bytes wait to be written.
    pub fn has_output(&self) -> bool {
        !self.output.is_empty()
    }

    /// Whether the client may be heard: not while it does not read its answers.
    pub fn wants_input(&self) -> bool {
        self.output.len() < BUSY_BACKLOG_LEN
    }

    /// Queues a message.
    pub fn send(&mut self, message: &Message) {
        self.output.extend(message.to_string().as_bytes());
        if self.output.len() > MAX_BACKLOG_LEN {
            self.closed = true;
        }
    }

    /// Reads what is there and returns the whole messages.
    pub fn receive(&mut self) -> Vec<Message> {
        let mut buffer = vec![0; READ_LEN];
        match self.stream.read(&mut buffer) {
            Ok(0) => self.closed = true,
            Ok(len) => self.splitter.push(buffer.get(..len).unwrap_or_default()),
            Err(error)
                if error.kind() == io::ErrorKind::WouldBlock
                    || error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => self.closed = true,
        }
        let mut messages = Vec::new();
        loop {
            match self.next_message() {
                Ok(Some(message)) => messages.push(message),
                Ok(None) => return messages,
                Err(_) => {
                    self.closed = true;
                    return messages;
                }
            }
        }
    }

    fn next_message(&mut self) -> Result<Option<Message>, StreamError> {
        let Some(json) = self.splitter.next_value()? else { return Ok(None) };
        Message::from_json(json).map(Some).map_err(|fault| StreamError::Syntax(fault.to_owned()))
    }

    /// Writes as much as the socket takes.
    pub fn flush(&mut self) {
        while !self.output.is_empty() {
            match self.stream.write(self.output.as_slices().0) {
                Ok(0) => self.closed = true,
                Ok(len) => _ = self.output.drain(..len),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => self.closed = true,
            }
            if self.closed {
                return;
            }
        }
    }

    /// Forgets a waiting transaction; true if there was one.
    pub fn cancel(&mut self, id: &Json) -> bool {
        let before = self.blocked.len();
        self.blocked.retain(|blocked| blocked.id != *id);
        self.blocked.len() < before
    }
}
