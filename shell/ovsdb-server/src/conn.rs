//! The socket side of a client: its stream, its received requests that are not executed yet, and its output.
//!
//! Requests of a client are executed in the order of their arrival. The exception is `echo`: while a job has the databases
//! ([`Core`](crate::core::Core)), an `echo` is answered before other pending requests, since clients use it to check that the server is
//! alive.

use crate::limits::Limits;
use crate::remotes::{NewConnection, RemoteOptions};
use ovsdb::stream::{self, StreamError};
use ovsdb::{ClientMessage, Json, Message, Splitter};
use runtime::{Module, RateLimit};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use transport::{Action, DisconnectReason, Outbox, Reconnect, Stream};
use units::Millis;

static RECONNECT: Module = Module::new("reconnect");
static JSONRPC: Module = Module::new("jsonrpc");
static TLS: Module = Module::new("stream_ssl");
static LIMIT: RateLimit = RateLimit::new(5, 5);

/// While a client has this many bytes of unsent output, the server reads no further input from it.
const BUSY_BACKLOG_LEN: usize = 1 << 20;
/// While a client has pending requests of this many bytes, the server reads no further input from it.
const BUSY_QUEUE_LEN: usize = 256 << 10;
/// Messages that are longer than this, in bytes, are parsed by a job: parsing 64 KiB takes about 0.5 ms.
pub const LONG_MESSAGE: usize = 64 << 10;
/// Maximum number of bytes read from one client in one turn.
pub const READ_LEN: usize = 64 << 10;

/// A received request that is not executed yet.
pub struct PendingRequest {
    pub message: ClientMessage,
    /// Length of its text, in bytes.
    len: usize,
}

impl PendingRequest {
    /// Returns whether the message is so long that its execution may take long, too.
    pub fn is_long(&self) -> bool {
        self.len > LONG_MESSAGE
    }
}

/// The state of a long message that a job must parse.
enum Parsing {
    /// There is none.
    Nothing,
    /// The message's text, which is not passed to a job yet.
    Text(Vec<u8>),
    /// A job is parsing the message. The value is the length of its text.
    InJob(usize),
}

/// One client.
pub struct Conn {
    pub stream: Stream,
    /// The state machine of the connection: probes, and log messages.
    pub link: Reconnect,
    /// Name of the remote of the connection.
    pub remote: String,
    /// Options of the remote.
    pub options: RemoteOptions,
    splitter: Splitter,
    parsing: Parsing,
    /// The pending requests.
    queue: VecDeque<PendingRequest>,
    /// Length of the texts of all pending requests, in bytes.
    queued_len: usize,
    /// Estimated memory of the client's blocked transactions, in bytes. While a job has the core: the value before the job.
    pub blocked_memory: usize,
    /// The time since which a long message is incomplete.
    pub incomplete_since: Option<Millis>,
    outbox: Outbox,
    /// Whether data may be available although the socket is not readable.
    pub may_have_data: bool,
    /// Whether the connection has ended.
    pub closed: bool,
    /// Why no further input will arrive. Requests received before are still executed.
    input_end: Option<DisconnectReason>,
    /// Why the connection has ended.
    loss: Option<DisconnectReason>,
    /// Whether the client has disconnected. Shared with the session, which a job may have.
    pub hung_up: Arc<AtomicBool>,
}

impl Conn {
    pub fn new(arrival: NewConnection, limits: &Limits) -> Conn {
        let NewConnection { stream, link, remote, options } = arrival;
        Conn {
            stream,
            link,
            remote,
            options,
            splitter: Splitter::new(limits.of_messages()),
            parsing: Parsing::Nothing,
            queue: VecDeque::new(),
            queued_len: 0,
            blocked_memory: 0,
            incomplete_since: None,
            outbox: Outbox::new(),
            may_have_data: true,
            closed: false,
            input_end: None,
            loss: None,
            hung_up: Arc::default(),
        }
    }

    /// Checks whether a client that has ended its sending direction has closed the connection, too.
    pub fn check_hangup(&self) {
        if self.input_end.is_some() && self.stream.has_hung_up() {
            self.hung_up.store(true, Ordering::Relaxed);
        }
    }

    /// Returns whether there is unsent output.
    pub fn has_output(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// Length of the unsent output, in bytes.
    pub fn backlog(&self) -> usize {
        self.outbox.len()
    }

    /// Length of incomplete and pending requests, in bytes.
    pub fn input_len(&self) -> usize {
        let parsing = match &self.parsing {
            Parsing::Nothing => 0,
            Parsing::Text(text) => text.len(),
            Parsing::InJob(len) => *len,
        };
        self.splitter.len() + self.queued_len + parsing
    }

    /// Returns whether to read from the client: not while there is much unsent output or many pending requests.
    pub fn accepts_input(&self) -> bool {
        self.outbox.len() < BUSY_BACKLOG_LEN
            && self.queued_len < BUSY_QUEUE_LEN
            && self.input_end.is_none()
            && matches!(self.parsing, Parsing::Nothing)
    }

    /// Queues an encoded message.
    pub fn send_text(&mut self, message: String) {
        self.outbox.push_owned(message.into_bytes());
    }

    /// Reads available bytes and queues complete messages. `buffer`: a buffer for the read, with any content.
    pub fn receive(&mut self, now: Millis, buffer: &mut [u8]) {
        self.may_have_data = false;
        match self.stream.read(buffer) {
            // Messages that were received before the end of the stream are still processed.
            Ok(0) => self.input_end = Some(DisconnectReason::Closed),
            Ok(len) => {
                self.link.activity(now);
                // The socket is readable if the kernel has data, but not if only the TLS library has decrypted data.
                self.may_have_data = len == buffer.len();
                self.splitter.push(buffer.get(..len).unwrap_or_default());
                self.split_messages();
                self.incomplete_since = match self.splitter.len() {
                    ..LONG_MESSAGE => None,
                    _ => self.incomplete_since.or(Some(now)),
                };
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => self.may_have_data = true,
            Err(error) => self.fail(&error),
        }
    }

    /// Queues the complete messages in the buffer, up to the first one that a job must parse.
    fn split_messages(&mut self) {
        while matches!(self.parsing, Parsing::Nothing) && self.input_end.is_none() {
            match self.splitter.next_text() {
                Ok(None) => return,
                Ok(Some(text)) if text.len() > LONG_MESSAGE => self.parsing = Parsing::Text(text),
                Ok(Some(text)) => self.queue_parsed(text.len(), parse(&text).map(ClientMessage::Message)),
                Err(error) => self.refuse(&error),
            }
        }
    }

    /// Returns a long message that a job must parse. The caller must pass the result to [`Conn::queue_parsed_long`].
    pub fn take_long_text(&mut self) -> Option<Vec<u8>> {
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

    /// Queues a message that a job has parsed, or handles its error.
    pub fn queue_parsed_long(&mut self, parsed: Result<ClientMessage, StreamError>) {
        if let Parsing::InJob(len) = std::mem::replace(&mut self.parsing, Parsing::Nothing) {
            self.queue_parsed(len, parsed);
        }
        self.split_messages();
    }

    fn queue_parsed(&mut self, len: usize, parsed: Result<ClientMessage, StreamError>) {
        match parsed {
            Ok(message) => {
                self.queue.push_back(PendingRequest { message, len });
                self.queued_len += len;
            }
            Err(error) => self.refuse(&error),
        }
    }

    fn refuse(&mut self, error: &StreamError) {
        runtime::warn_rl!(JSONRPC, LIMIT, "{}: error parsing stream: {error}", self.stream.name());
        self.input_end = Some(DisconnectReason::Error("Protocol error".to_owned()));
    }

    /// Removes and returns the next pending request.
    pub fn next_request(&mut self) -> Option<PendingRequest> {
        let next = self.queue.pop_front()?;
        self.queued_len -= next.len;
        Some(next)
    }

    /// Returns whether there are pending requests.
    pub fn has_requests(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Answers the `echo` requests among the pending requests.
    pub fn answer_probes(&mut self) {
        for pending in std::mem::take(&mut self.queue) {
            match pending.message {
                ClientMessage::Message(Message::Request { method, params, id }) if method == "echo" => {
                    self.queued_len -= pending.len;
                    self.send_text(Message::Reply { result: params, id }.to_string());
                }
                message => self.queue.push_back(PendingRequest { message, len: pending.len }),
            }
        }
    }

    /// Ends the connection if no further input will arrive, and all requests are executed and answered.
    pub fn end_if_done(&mut self) {
        if self.queue.is_empty()
            && !self.has_output()
            && matches!(self.parsing, Parsing::Nothing)
            && let Some(loss) = self.input_end.take()
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
            return self.end(DisconnectReason::Error("Protocol error".to_owned()));
        }
        self.end(DisconnectReason::from(error));
    }

    /// Marks the connection as ended; the server removes it in this turn.
    pub fn end(&mut self, loss: DisconnectReason) {
        if !self.closed {
            self.closed = true;
            self.loss = Some(loss);
        }
    }

    /// Reports the end of the connection to its state machine, and returns the state machine.
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
