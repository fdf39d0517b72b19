//! One client of the control socket.
//!
//! The socket is not read while a request waits for its answer or an answer is not completely sent. So a client that sends
//! many requests fills the kernel's buffers and blocks, and the memory of the daemon is limited.

use crate::format::{Format, Reply, with_newline};
use crate::long_text::{AHEAD_MAX, LongText};
use ovsdb::json::quoted;
use ovsdb::stream::Limits;
use ovsdb::{Json, Message, Splitter};
use runtime::log::{Level, Module};
use runtime::poll_loop::{Interest, WaitSet};
use std::io::{self, ErrorKind, Read};
use std::time::{Duration, Instant};
use transport::{Outbox, Stream};

pub(crate) static LOG: Module = Module::new("unixctl");
/// Limits of a request. They are larger than any command needs, including `dpctl/add-flows`.
const MAX_REQUEST: Limits = Limits { bytes: 4 << 20, values: 64 << 10 };
const READ_SIZE: usize = 16 * 1024;
/// A client that reads no byte of its answer for this time is disconnected.
const STALL_TIMEOUT: Duration = Duration::from_secs(60);

/// Identifies a request until it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestId {
    pub(crate) conn: u64,
    pub(crate) seq: u64,
}

/// A command for the daemon. The daemon must answer each one eventually.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Identifies the request in the call that answers it.
    pub id: RequestId,
    /// The name of the command, which is one of the offered commands.
    pub method: String,
    /// The arguments; their number has been checked.
    pub args: Vec<String>,
    /// The reply format that the client has chosen.
    pub format: Format,
}

/// A request that was received from a client and not checked yet.
pub(crate) struct ReceivedRequest {
    pub(crate) id: RequestId,
    pub(crate) method: String,
    pub(crate) params: Vec<Json>,
}

pub(crate) struct Conn {
    number: u64,
    stream: Stream,
    splitter: Splitter,
    outbox: Outbox,
    last_progress: Instant,
    seq: u64,
    /// Whether the splitter may contain another request. Then the main loop must not wait for the socket.
    may_have_request: bool,
    /// The JSON-RPC ID of the request that is being answered.
    pending: Option<Json>,
    /// The generator of the rest of a long answer.
    long_answer: Option<LongText>,
    pub(crate) format: Format,
}

impl Conn {
    pub(crate) fn new(number: u64, stream: Stream) -> Conn {
        Conn {
            number,
            stream,
            splitter: Splitter::new(MAX_REQUEST),
            outbox: Outbox::new(),
            last_progress: Instant::now(),
            seq: 0,
            may_have_request: false,
            pending: None,
            long_answer: None,
            format: Format::Text,
        }
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn name(&self) -> &str {
        self.stream.name()
    }

    /// Writes queued bytes. After an error the caller must close the connection.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.fill_outbox();
        let before = self.outbox.len();
        self.outbox.flush(&mut self.stream)?;
        if self.outbox.len() < before {
            self.last_progress = Instant::now();
        } else if before > 0 && self.last_progress.elapsed() > STALL_TIMEOUT {
            return Err(ErrorKind::TimedOut.into());
        }
        Ok(())
    }

    /// Generates the next piece of a long answer, if fewer than [`AHEAD_MAX`] bytes wait to be sent.
    fn fill_outbox(&mut self) {
        let Some(rest) = &mut self.long_answer else { return };
        if self.outbox.len() < AHEAD_MAX {
            let (piece, more) = rest.piece();
            self.outbox.push(piece.as_bytes());
            if !more {
                self.outbox.push(LongText::tail(self.format).as_bytes());
                self.long_answer = None;
            }
        }
    }

    /// Returns the next request, if the answer to the previous request was sent completely.
    pub(crate) fn receive(&mut self) -> io::Result<Option<ReceivedRequest>> {
        let mut piece = [0; READ_SIZE];
        loop {
            if self.pending.is_some() || self.long_answer.is_some() || !self.outbox.is_empty() {
                return Ok(None);
            }
            let invalid = |e: String| io::Error::new(ErrorKind::InvalidData, e);
            if let Some(json) = self.splitter.next_value().map_err(|e| invalid(e.to_string()))? {
                self.may_have_request = true;
                return self.parse_request(json).map(Some).map_err(invalid);
            }
            self.may_have_request = false;
            match self.stream.read(&mut piece) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(n) => self.splitter.push(piece.get(..n).unwrap_or_default()),
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// Parses a JSON-RPC request, and records it as the pending one.
    fn parse_request(&mut self, json: Json) -> Result<ReceivedRequest, String> {
        let kind = match Message::from_json(json)? {
            Message::Request { method, params: Json::Array(params), id } => {
                if LOG.enabled(Level::Dbg) {
                    let shown = Json::Array(params.clone());
                    runtime::debug!(LOG, "received request {method}{shown}, id={id}");
                }
                self.pending = Some(id);
                self.seq += 1;
                let id = RequestId { conn: self.number, seq: self.seq };
                return Ok(ReceivedRequest { id, method, params });
            }
            Message::Request { .. } => return Err("request parameters are not an array".into()),
            Message::Notify { .. } => "notification",
            Message::Reply { .. } => "reply",
            Message::Error { .. } => "error",
        };
        Err(format!("received unexpected {kind} message"))
    }

    /// Answers the pending request, unless `seq` is the number of an older request.
    pub(crate) fn answer(&mut self, seq: u64, answer: &Result<Reply, String>) {
        if seq != self.seq {
            return;
        }
        let Some(id) = self.pending.take() else { return };
        let (what, body) = match answer {
            Ok(reply) => ("success", reply.encode(self.format)),
            Err(text) => ("error", quoted(&with_newline(text))),
        };
        runtime::debug!(LOG, "replying with {what}, id={id}: \"{body}\"");
        let message = match answer {
            Ok(_) => format!("{{\"error\":null,\"id\":{id},\"result\":{body}}}"),
            Err(_) => format!("{{\"error\":{body},\"id\":{id},\"result\":null}}"),
        };
        self.last_progress = Instant::now();
        self.outbox.push(message.as_bytes());
    }

    /// Answers the pending request with a text that is generated while it is sent.
    pub(crate) fn answer_long(&mut self, seq: u64, text: LongText) {
        if seq != self.seq {
            return;
        }
        let Some(id) = self.pending.take() else { return };
        runtime::debug!(LOG, "replying with success, id={id}, piece by piece");
        self.last_progress = Instant::now();
        self.outbox.push(LongText::head(&id, self.format).as_bytes());
        self.long_answer = Some(text);
    }

    pub(crate) fn wait<'a>(&'a self, set: &mut WaitSet<'a>) {
        if !self.outbox.is_empty() || self.long_answer.is_some() {
            set.fd(&self.stream, Interest::Write);
        } else if self.pending.is_none() && self.may_have_request {
            set.wake_now();
        } else if self.pending.is_none() {
            set.fd(&self.stream, Interest::Read);
        }
    }
}
