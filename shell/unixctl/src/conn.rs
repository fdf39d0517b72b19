//! One client of the control socket.
//!
//! Nothing is read while a request is being answered or an answer is not yet sent: the kernel's buffers then
//! block the client, and our memory is limited.

use crate::format::{Format, Reply, ended};
use crate::long::{AHEAD, LongText};
use ovsdb::json::quoted;
use ovsdb::stream::Limits;
use ovsdb::{Json, Message, Splitter};
use runtime::log::{Level, Module};
use runtime::poll_loop::{Interest, WaitSet};
use std::io::{self, ErrorKind, Read};
use std::time::{Duration, Instant};
use transport::{Outbox, Stream};

pub(crate) static LOG: Module = Module::new("unixctl");
/// Limits of a request; larger than any command, including `dpctl/add-flows`.
const MAX_REQUEST: Limits = Limits { bytes: 4 << 20, values: 64 << 10 };
const PIECE: usize = 16 * 1024;
/// A client that reads nothing of its answer for this time is disconnected.
const STALL: Duration = Duration::from_secs(60);

/// Identifies a request until it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestId {
    pub(crate) conn: u64,
    pub(crate) seq: u64,
}

/// A command for the daemon; each must be answered eventually.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The ID for the answer.
    pub id: RequestId,
    /// The command: one of those offered.
    pub method: String,
    /// Its arguments; their number has been checked.
    pub args: Vec<String>,
    /// The reply format that the client has chosen.
    pub format: Format,
}

/// A request received from a connection.
pub(crate) struct Received {
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
    /// Whether the splitter may contain another request, which polling the socket would not show.
    more: bool,
    /// The JSON-RPC ID of the request that is being answered.
    pending: Option<Json>,
    /// The rest of the answer that is being sent.
    rest: Option<LongText>,
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
            more: false,
            pending: None,
            rest: None,
            format: Format::Text,
        }
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn name(&self) -> &str {
        self.stream.name()
    }

    /// Writes queued bytes; after an error the connection must be closed.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.fill();
        let before = self.outbox.len();
        self.outbox.flush(&mut self.stream)?;
        if self.outbox.len() < before {
            self.last_progress = Instant::now();
        } else if before > 0 && self.last_progress.elapsed() > STALL {
            return Err(ErrorKind::TimedOut.into());
        }
        Ok(())
    }

    /// Makes the next piece of a long answer, if little of it waits to be sent.
    fn fill(&mut self) {
        let Some(rest) = &mut self.rest else { return };
        if self.outbox.len() < AHEAD {
            let (piece, more) = rest.piece();
            self.outbox.push(piece.as_bytes());
            if !more {
                self.outbox.push(LongText::tail(self.format).as_bytes());
                self.rest = None;
            }
        }
    }

    /// Returns the next request, if the previous one has been answered.
    pub(crate) fn receive(&mut self) -> io::Result<Option<Received>> {
        let mut piece = [0; PIECE];
        loop {
            if self.pending.is_some() || self.rest.is_some() || !self.outbox.is_empty() {
                return Ok(None);
            }
            let invalid = |e: String| io::Error::new(ErrorKind::InvalidData, e);
            if let Some(json) = self.splitter.next_value().map_err(|e| invalid(e.to_string()))? {
                self.more = true;
                return self.accept(json).map(Some).map_err(invalid);
            }
            self.more = false;
            match self.stream.read(&mut piece) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(n) => self.splitter.push(piece.get(..n).unwrap_or_default()),
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }

    fn accept(&mut self, json: Json) -> Result<Received, String> {
        let kind = match Message::from_json(json)? {
            Message::Request { method, params: Json::Array(params), id } => {
                if LOG.enabled(Level::Dbg) {
                    let shown = Json::Array(params.clone());
                    runtime::debug!(LOG, "received request {method}{shown}, id={id}");
                }
                self.pending = Some(id);
                self.seq += 1;
                let id = RequestId { conn: self.number, seq: self.seq };
                return Ok(Received { id, method, params });
            }
            Message::Request { .. } => return Err("request parameters are not an array".into()),
            Message::Notify { .. } => "notification",
            Message::Reply { .. } => "reply",
            Message::Error { .. } => "error",
        };
        Err(format!("received unexpected {kind} message"))
    }

    /// Answers the pending request, unless `seq` is that of an older one.
    pub(crate) fn answer(&mut self, seq: u64, answer: &Result<Reply, String>) {
        if seq != self.seq {
            return;
        }
        let Some(id) = self.pending.take() else { return };
        let (what, body) = match answer {
            Ok(reply) => ("success", reply.encode(self.format)),
            Err(text) => ("error", quoted(&ended(text))),
        };
        runtime::debug!(LOG, "replying with {what}, id={id}: \"{body}\"");
        let message = match answer {
            Ok(_) => format!("{{\"error\":null,\"id\":{id},\"result\":{body}}}"),
            Err(_) => format!("{{\"error\":{body},\"id\":{id},\"result\":null}}"),
        };
        self.last_progress = Instant::now();
        self.outbox.push(message.as_bytes());
    }

    /// Answers the pending request with a text that is made while it is sent.
    pub(crate) fn answer_long(&mut self, seq: u64, text: LongText) {
        if seq != self.seq {
            return;
        }
        let Some(id) = self.pending.take() else { return };
        runtime::debug!(LOG, "replying with success, id={id}, piece by piece");
        self.last_progress = Instant::now();
        self.outbox.push(LongText::head(&id, self.format).as_bytes());
        self.rest = Some(text);
    }

    pub(crate) fn wait<'a>(&'a self, set: &mut WaitSet<'a>) {
        if !self.outbox.is_empty() || self.rest.is_some() {
            set.fd(&self.stream, Interest::Write);
        } else if self.pending.is_none() && self.more {
            set.wake_now();
        } else if self.pending.is_none() {
            set.fd(&self.stream, Interest::Read);
        }
    }
}
