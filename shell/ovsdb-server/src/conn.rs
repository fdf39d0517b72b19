//! One client as the thread of the sockets sees it: its stream, what came and is not carried out, what is to be written.
//!
//! Requests of a client are carried out in the order in which they come. While the databases are with a job, `echo` is
//! answered before the requests that wait: it asks whether the server is there.

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

/// While so many bytes are unread, nothing more is taken from a client.
const BUSY_BACKLOG_LEN: usize = 1 << 20;
/// While requests of so much text wait, nothing more is taken from their client.
const BUSY_QUEUE_LEN: usize = 256 << 10;
/// A longer message is parsed by a job: 64 KiB take about 0.5 ms.
pub const LONG_MESSAGE: usize = 64 << 10;
/// Bytes read from one client before the others have their turn.
pub const READ_LEN: usize = 64 << 10;

/// A request that waits to be carried out.
pub struct Waiting {
    pub message: Long,
    /// The length of its text.
    len: usize,
}

impl Waiting {
    /// Whether it was so long that carrying it out takes long, too.
    pub fn is_long(&self) -> bool {
        self.len > LONG_MESSAGE
    }
}

/// What of a client is being parsed.
enum Parsing {
    Nothing,
    /// A long message that no job has taken yet.
    Text(Vec<u8>),
    /// One that a job has; its length.
    InJob(usize),
}

/// One client.
pub struct Conn {
    pub stream: Stream,
    /// Probes, and what to say about the end.
    pub link: Reconnect,
    /// The remote that it came by, and how that treats its clients.
    pub remote: String,
    pub options: RemoteOptions,
    splitter: Splitter,
    parsing: Parsing,
    queue: VecDeque<Waiting>,
    queued_len: usize,
    /// Since when a long message is unfinished.
    pub unfinished: Option<Millis>,
    outbox: Outbox,
    /// More may be there to read than the socket tells.
    pub unread: bool,
    /// Set when the connection is over.
    pub closed: bool,
    /// Why nothing more comes from the client; what it has asked for before is still done.
    last: Option<Loss>,
    loss: Option<Loss>,
    /// Whether the client has gone, for the session, which a job may have.
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

    /// Notices that a client has closed its connection that had ended its side of it, or did both at once.
    pub fn notice_hangup(&self) {
        if self.last.is_some() && self.stream.has_hung_up() {
            self.hung_up.store(true, Ordering::Relaxed);
        }
    }

    /// Whether bytes wait to be written.
    pub fn has_output(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// How many.
    pub fn backlog(&self) -> usize {
        self.outbox.len()
    }

    /// Bytes of requests that are unfinished or wait.
    pub fn input_len(&self) -> usize {
        let parsing = match &self.parsing {
            Parsing::Nothing => 0,
            Parsing::Text(text) => text.len(),
            Parsing::InJob(len) => *len,
        };
        self.splitter.len() + self.queued_len + parsing
    }

    /// Whether the client may be heard: not while it does not read its answers or has asked for much already.
    pub fn wants_input(&self) -> bool {
        self.outbox.len() < BUSY_BACKLOG_LEN
            && self.queued_len < BUSY_QUEUE_LEN
            && self.last.is_none()
            && matches!(self.parsing, Parsing::Nothing)
    }

    /// Queues a message that is text already.
    pub fn send_text(&mut self, message: String) {
        self.outbox.push_owned(message.into_bytes());
    }

    /// Reads what is there and queues the whole messages.
    pub fn receive(&mut self, now: Millis, buffer: &mut [u8]) {
        self.unread = false;
        match self.stream.read(buffer) {
            // What came before the end of the stream is still heard.
            Ok(0) => self.last = Some(Loss::Closed),
            Ok(len) => {
                self.link.activity(now);
                // A socket with more to read says so; what TLS has decrypted already does not show there.
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

    /// Cuts off the whole messages, up to one that a job is to parse.
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

    /// A long message for a job, which ends with [`Conn::parsed_long`].
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

    /// The message that a job parsed, or what is wrong with it.
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

    /// The next request that is to be carried out.
    pub fn next_waiting(&mut self) -> Option<Waiting> {
        let next = self.queue.pop_front()?;
        self.queued_len -= next.len;
        Some(next)
    }

    /// Whether requests wait.
    pub fn has_waiting(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Answers the probes among the requests that wait.
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

    /// Ends the connection when nothing more comes and all that was asked for has been done and answered.
    pub fn end_if_done(&mut self) {
        if self.queue.is_empty()
            && !self.has_output()
            && matches!(self.parsing, Parsing::Nothing)
            && let Some(loss) = self.last.take()
        {
            self.end(loss);
        }
    }

    /// Writes as much as the socket takes.
    pub fn flush(&mut self) {
        if self.has_output()
            && !self.closed
            && let Err(error) = self.outbox.flush(&mut self.stream)
        {
            self.fail(&error);
        }
    }

    /// Probes a client that has been silent, and gives up one that stays so.
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

    /// Ends the connection with this turn.
    pub fn end(&mut self, loss: Loss) {
        if !self.closed {
            self.closed = true;
            self.loss = Some(loss);
        }
    }

    /// The connection's state machine, told of the end.
    pub fn into_link(mut self, now: Millis) -> Reconnect {
        self.hung_up.store(true, Ordering::Relaxed);
        if let Some(loss) = self.loss.take() {
            self.link.disconnected(now, loss);
        }
        self.link.log_to(&RECONNECT);
        self.link
    }
}

/// Makes a message of a short text.
fn parse(text: &[u8]) -> Result<Message, StreamError> {
    Message::from_json(stream::parse(text)?).map_err(|fault| StreamError::Syntax(fault.to_owned()))
}
