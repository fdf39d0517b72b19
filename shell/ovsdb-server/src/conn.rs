//! The socket side of a client: stream, received requests that are not executed yet, and output.
//!
//! Requests of a client are executed in the order of their arrival. The exception is `echo`: while a job has
//! the databases, it is answered before waiting requests, since clients use it to check that the server is
//! alive.

use crate::limits::Limits;
use crate::remotes::{Arrival, RemoteOptions};
use ovsdb::stream::{self, StreamError};
use ovsdb::{Json, Long, Message, Splitter};
use runtime::{Module, RateLimit};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use transport::{Action, Loss, Outbox, Reconnect, Stream};
use units::Millis;

static RECONNECT: Module = Module::new("reconnect");
static JSONRPC: Module = Module::new("jsonrpc");
static TLS: Module = Module::new("stream_ssl");
static LIMIT: RateLimit = RateLimit::new(5, 5);

/// If this many bytes of output wait, the server reads nothing more from the client.
const BUSY_BACKLOG_LEN: usize = 1 << 20;
/// If requests of this many bytes wait, the server reads nothing more from their client.
const BUSY_QUEUE_LEN: usize = 256 << 10;
/// A job parses longer messages, in bytes: 64 KiB take about 0.5 ms.
pub const LONG_MESSAGE: usize = 64 << 10;
/// Maximum number of bytes read from one client per turn.
pub const READ_LEN: usize = 64 << 10;

/// A request that waits for its execution.
pub struct Waiting {
    pub message: Long,
    /// Length of its text, in bytes.
    len: usize,
}

impl Waiting {
    /// Returns whether the message is long, so that its execution takes long, too.
    pub fn is_long(&self) -> bool {
        self.len > LONG_MESSAGE
    }
}

/// The parsing of a long message.
enum Parsing {
    Nothing,
    /// The text, which no job has taken yet.
    Text(Vec<u8>),
    /// The length of the text that a job is parsing.
    InJob(usize),
}

/// One client.
pub struct Conn {
    pub stream: Stream,
    /// The state machine of the connection: probes, and log messages.
    pub link: Reconnect,
    /// The remote of the connection, and its options.
    pub remote: String,
    pub options: RemoteOptions,
    splitter: Splitter,
    parsing: Parsing,
    queue: VecDeque<Waiting>,
    queued_len: usize,
    /// The time since which a long message is incomplete.
    pub unfinished: Option<Millis>,
    outbox: Outbox,
    /// Whether data may be available although the socket does not show it.
    pub unread: bool,
    /// Whether the connection has ended.
    pub closed: bool,
    /// Why no more input will arrive; requests received before are still executed.
    last: Option<Loss>,
    loss: Option<Loss>,
    /// Whether the client has disconnected; shared with the session, which may be in a job.
    pub hung_up: Arc<AtomicBool>,
}

impl Conn {
    pub fn new(arrival: Arrival, limits: &Limits) -> Conn {
        let Arrival { stream, link, remote, options } = arrival;
        Conn {
            stream,
            link,
            remote,
            options,
            splitter: Splitter::new(limits.of_messages()),
            parsing: Parsing::Nothing,
            queue: VecDeque::new(),
            queued_len: 0,
            unfinished: None,
            outbox: Outbox::new(),
            unread: true,
            closed: false,
            last: None,
            loss: None,
            hung_up: Arc::default(),
        }
    }

    /// Detects that a client which had ended its sending direction, or did so just now, has closed the
    /// connection.
    pub fn notice_hangup(&self) {
        if self.last.is_some() && self.stream.has_hung_up() {
            self.hung_up.store(true, Ordering::Relaxed);
        }
    }

    /// Returns whether output waits.
    pub fn has_output(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// Number of bytes of output that wait.
    pub fn backlog(&self) -> usize {
        self.outbox.len()
    }

    /// Number of bytes of incomplete and waiting requests.
    pub fn input_len(&self) -> usize {
        let parsing = match &self.parsing {
            Parsing::Nothing => 0,
            Parsing::Text(text) => text.len(),
            Parsing::InJob(len) => *len,
        };
        self.splitter.len() + self.queued_len + parsing
    }

    /// Returns whether to read from the client: not while much output or many requests wait.
    pub fn wants_input(&self) -> bool {
        self.outbox.len() < BUSY_BACKLOG_LEN
            && self.queued_len < BUSY_QUEUE_LEN
            && self.last.is_none()
            && matches!(self.parsing, Parsing::Nothing)
    }

    /// Queues an encoded message.
    pub fn send_text(&mut self, message: String) {
        self.outbox.push_owned(message.into_bytes());
    }

    /// Reads available bytes and queues the complete messages.
    pub fn receive(&mut self, now: Millis, buffer: &mut [u8]) {
        self.unread = false;
        match self.stream.read(buffer) {
            // Messages before the end of the stream are still processed.
            Ok(0) => self.last = Some(Loss::Closed),
            Ok(len) => {
                self.link.activity(now);
                // The socket shows whether it has more data, but not what TLS has already decrypted.
                self.unread = len == buffer.len();
                self.splitter.push(buffer.get(..len).unwrap_or_default());
                self.split();
                self.unfinished = match self.splitter.len() {
                    ..LONG_MESSAGE => None,
                    _ => self.unfinished.or(Some(now)),
                };
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => self.unread = true,
            Err(error) => self.fail(&error),
        }
    }

    /// Splits off complete messages, up to one that a job must parse.
    fn split(&mut self) {
        while matches!(self.parsing, Parsing::Nothing) && self.last.is_none() {
            match self.splitter.next_text() {
                Ok(None) => return,
                Ok(Some(text)) if text.len() > LONG_MESSAGE => self.parsing = Parsing::Text(text),
                Ok(Some(text)) => self.parsed(text.len(), parse(&text).map(Long::Message)),
                Err(error) => self.refuse(&error),
            }
        }
    }

    /// Takes a long message for a job; [`Conn::parsed_long`] must follow.
    pub fn take_long(&mut self) -> Option<Vec<u8>> {
        match std::mem::replace(&mut self.parsing, Parsing::Nothing) {
            Parsing::Text(text) => {
                self.parsing = Parsing::InJob(text.len());
                Some(text)
            }
            other => {
                self.parsing = other;
                None
            }
        }
    }

    /// Adds the message that a job has parsed, or handles its error.
    pub fn parsed_long(&mut self, parsed: Result<Long, StreamError>) {
        if let Parsing::InJob(len) = std::mem::replace(&mut self.parsing, Parsing::Nothing) {
            self.parsed(len, parsed);
        }
        self.split();
    }

    fn parsed(&mut self, len: usize, parsed: Result<Long, StreamError>) {
        match parsed {
            Ok(message) => {
                self.queue.push_back(Waiting { message, len });
                self.queued_len += len;
            }
            Err(error) => self.refuse(&error),
        }
    }

    fn refuse(&mut self, error: &StreamError) {
        runtime::warn_rl!(JSONRPC, LIMIT, "{}: error parsing stream: {error}", self.stream.name());
        self.last = Some(Loss::Error("Protocol error".to_owned()));
    }

    /// Takes the next request to execute.
    pub fn next_waiting(&mut self) -> Option<Waiting> {
        let next = self.queue.pop_front()?;
        self.queued_len -= next.len;
        Some(next)
    }

    /// Returns whether requests wait.
    pub fn has_waiting(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Answers the `echo` requests among the waiting requests.
    pub fn answer_probes(&mut self) {
        for waiting in std::mem::take(&mut self.queue) {
            match waiting.message {
                Long::Message(Message::Request { method, params, id }) if method == "echo" => {
                    self.queued_len -= waiting.len;
                    self.send_text(Message::Reply { result: params, id }.to_string());
                }
                message => self.queue.push_back(Waiting { message, len: waiting.len }),
            }
        }
    }

    /// Ends the connection if no more input will arrive, and all requests are executed and answered.
    pub fn end_if_done(&mut self) {
        if self.queue.is_empty()
            && !self.has_output()
            && matches!(self.parsing, Parsing::Nothing)
            && let Some(loss) = self.last.take()
        {
            self.end(loss);
        }
    }

    /// Writes until the socket blocks.
    pub fn flush(&mut self) {
        if self.has_output()
            && !self.closed
            && let Err(error) = self.outbox.flush(&mut self.stream)
        {
            self.fail(&error);
        }
    }

    /// Probes an idle client, and ends the connection if the client does not answer.
    pub fn probe(&mut self, now: Millis) {
        match self.link.run(now) {
            Some(Action::Probe) => {
                self.send_text(Message::request("echo", Json::Array(Vec::new()), "echo").to_string());
            }
            Some(Action::Disconnect | Action::Connect) => self.closed = true,
            None => {}
        }
        self.link.log_to(&RECONNECT);
    }

    fn fail(&mut self, error: &io::Error) {
        if error.kind() == ErrorKind::InvalidData {
            runtime::warn_rl!(TLS, LIMIT, "{}: {error}", self.stream.name());
            return self.end(Loss::Error("Protocol error".to_owned()));
        }
        self.end(Loss::from(error));
    }

    /// Ends the connection in this turn.
    pub fn end(&mut self, loss: Loss) {
        if !self.closed {
            self.closed = true;
            self.loss = Some(loss);
        }
    }

    /// The state machine of the connection, after the end of the connection was reported to it.
    pub fn into_link(mut self, now: Millis) -> Reconnect {
        self.hung_up.store(true, Ordering::Relaxed);
        if let Some(loss) = self.loss.take() {
            self.link.disconnected(now, loss);
        }
        self.link.log_to(&RECONNECT);
        self.link
    }
}

/// Parses a short message.
fn parse(text: &[u8]) -> Result<Message, StreamError> {
    Message::from_json(stream::parse(text)?).map_err(|fault| StreamError::Syntax(fault.to_owned()))
}
