//! A connection: reads a request, waits until the answer is available, and sends the answer.

use crate::shared::AnswerResult;
use http_request::{REQUEST_MAX, Request, RequestError};
use runtime::WaitSet;
use runtime::poll_loop::Interest;
use std::io::{self, ErrorKind, Read, Write};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use transport::Stream;
use units::Millis;

/// Time limit for a client to send its request.
pub const READ_TIME: Millis = Millis(5_000);
/// Time limit for waiting for a view or a trace.
const WAIT_TIME: Millis = Millis(3_000);
/// Time limit for a client to read its answer.
pub const WRITE_TIME: Millis = Millis(15_000);
/// How long after the end of its answer a client may still send.
pub const LINGER_TIME: Millis = Millis(2_000);
/// Maximum number of bytes that are read and discarded after the end of an answer: a client may send a body with its request.
const LINGER_MAX: usize = 16 << 20;
/// Maximum number of bytes that are read and discarded in one turn.
const LINGER_TURN: usize = 1 << 18;
/// Maximum number of bytes that are written in one turn, so that a fast reader does not delay other clients.
const WRITE_MAX: usize = 1 << 20;

/// An answer.
pub struct Answer {
    /// Status code.
    pub code: u16,
    /// Content type.
    pub kind: &'static str,
    /// Body. Several connections may send the same body.
    pub body: Arc<Vec<u8>>,
}

impl Answer {
    /// An answer with a new body.
    pub fn new(code: u16, kind: &'static str, body: impl Into<Vec<u8>>) -> Answer {
        Answer { code, kind, body: Arc::new(body.into()) }
    }

    /// Plain text.
    pub fn text(code: u16, text: &str) -> Answer {
        Answer::new(code, "text/plain; charset=utf-8", format!("{text}\n"))
    }

    fn head(&self) -> Vec<u8> {
        let reason = match self.code {
            200 => "OK",
            400 => "Bad Request",
            403 => "Forbidden",
            404 => "Not Found",
            405 => "Method Not Allowed",
            421 => "Misdirected Request",
            431 => "Request Header Fields Too Large",
            503 => "Service Unavailable",
            _ => "Error",
        };
        let allow = if self.code == 405 { "Allow: GET, HEAD\r\n" } else { "" };
        // The content security policy: the page contains its script and style, and connects only to this server. Its script cannot
        // turn text into elements, and no page of another site may contain anything of this server.
        let policy = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; img-src data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";
        format!(
            "HTTP/1.1 {} {reason}\r\nContent-Type: {}\r\nContent-Length: {}\r\n{allow}Cache-Control: no-store\r\n\
             Content-Security-Policy: {policy}\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n\
             Cross-Origin-Resource-Policy: same-origin\r\nConnection: close\r\n\r\n",
            self.code,
            self.kind,
            self.body.len()
        )
        .into_bytes()
    }
}

/// The state of a connection.
pub enum State {
    /// Reads a request; these bytes of it have arrived.
    Reading(Vec<u8>),
    /// The request waits for a view that is newer than the view with this number.
    Waiting(Request, u64),
    /// The request waits for the main thread's answer.
    Tracing(Receiver<AnswerResult>),
    /// Sends an answer: its head, its body, and the number of bytes that are already sent.
    Writing(Vec<u8>, Arc<Vec<u8>>, usize),
    /// The answer is sent. Up to this many bytes that the client still sends are discarded. Closing a socket with unread bytes
    /// would reset the connection, and then the client could lose an answer that it has not read yet.
    Ending(usize),
}

/// A connection.
pub struct Conn {
    stream: Stream,
    /// The present state.
    pub state: State,
    /// Time limit of the present state.
    pub deadline: Millis,
    /// The connection is a TCP connection.
    pub is_tcp: bool,
    /// When the connection was accepted.
    pub since: Millis,
    /// The client's host, for TCP: an IPv4 address, or the first half of an IPv6 address, because a host may have many IPv6
    /// addresses.
    pub source: Option<u64>,
    /// The answer is sent without a body (`HEAD`).
    head_only: bool,
}

impl Conn {
    /// A new connection.
    pub fn new(stream: Stream, is_tcp: bool, now: Millis) -> Conn {
        Conn {
            source: stream.peer_addr().map(|address| source(address.ip())),
            stream,
            state: State::Reading(Vec::new()),
            deadline: now + READ_TIME,
            is_tcp,
            since: now,
            head_only: false,
        }
    }

    /// Reads what has arrived. Returns the request when it is complete.
    pub fn read(&mut self) -> io::Result<Option<Result<Request, RequestError>>> {
        let State::Reading(bytes) = &mut self.state else { return Ok(None) };
        let mut buffer = [0; 2048];
        loop {
            let read_max = (REQUEST_MAX - bytes.len()).min(buffer.len());
            match self.stream.read(&mut buffer[..read_max]) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(n) => bytes.extend_from_slice(&buffer[..n]),
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(e) => return Err(e),
            }
            match http_request::parse(bytes) {
                Ok(None) => {}
                Ok(Some(request)) => {
                    self.head_only = request.head_only;
                    return Ok(Some(Ok(request)));
                }
                Err(error) => return Ok(Some(Err(error))),
            }
        }
    }

    /// Waits for a view or a trace.
    pub fn wait_for(&mut self, state: State, now: Millis) {
        self.state = state;
        self.deadline = now + WAIT_TIME;
    }

    /// Begins to send an answer.
    pub fn answer(&mut self, answer: &Answer, now: Millis) {
        let body = if self.head_only { Arc::default() } else { Arc::clone(&answer.body) };
        self.state = State::Writing(answer.head(), body, 0);
        self.deadline = now + WRITE_TIME;
    }

    /// Sends as much of the answer as the socket accepts. After the answer, reads and discards input; returns true when the
    /// client has closed the connection, or after [`LINGER_MAX`] bytes.
    pub fn write(&mut self, now: Millis) -> io::Result<bool> {
        if let State::Ending(left) = &mut self.state {
            return drain(&mut self.stream, left);
        }
        let State::Writing(head, body, at) = &mut self.state else { return Ok(false) };
        let end = head.len() + body.len();
        let stop = at.saturating_add(WRITE_MAX);
        while *at < end.min(stop) {
            let rest = if *at < head.len() { &head[*at..] } else { &body[*at - head.len()..] };
            match self.stream.write(rest) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(n) => *at += n,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(e) => return Err(e),
            }
        }
        if *at == end {
            self.stream.end_sending()?;
            self.state = State::Ending(LINGER_MAX);
            self.deadline = now + LINGER_TIME;
        }
        Ok(false)
    }

    /// The body that is being sent.
    pub fn body(&self) -> Option<&Arc<Vec<u8>>> {
        match &self.state {
            State::Writing(_, body, _) => Some(body),
            _ => None,
        }
    }

    /// Whether the client must act next: send its request, or close the connection after the answer.
    pub fn waits_for_client(&self) -> bool {
        matches!(self.state, State::Reading(_) | State::Ending(_))
    }

    /// Whether the answer is sent.
    pub fn is_ending(&self) -> bool {
        matches!(self.state, State::Ending(_))
    }

    /// Adds the events for which the connection waits.
    pub fn wait<'a>(&'a self, set: &mut WaitSet<'a>) {
        set.deadline(self.deadline);
        match &self.state {
            State::Reading(_) | State::Ending(_) => {
                set.fd(&self.stream, Interest::Read);
            }
            State::Writing(..) => {
                set.fd(&self.stream, Interest::Write);
            }
            State::Waiting(..) | State::Tracing(_) => {}
        }
    }
}

fn source(address: IpAddr) -> u64 {
    match address.to_canonical() {
        IpAddr::V4(address) => u64::from(u32::from(address)),
        IpAddr::V6(address) => (u128::from(address) >> 64) as u64,
    }
}

/// Reads and discards up to `left` bytes. Returns true at the end of the stream, or when `left` is 0.
fn drain(stream: &mut Stream, left: &mut usize) -> io::Result<bool> {
    let mut buffer = [0; 4096];
    let stop = left.saturating_sub(LINGER_TURN);
    while *left > stop {
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(true),
            Ok(n) => *left = left.saturating_sub(n),
            Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(e) => return Err(e),
        }
    }
    Ok(*left == 0)
}
