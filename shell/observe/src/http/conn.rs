//! A connection: it reads a request, waits for what the answer needs, and sends the answer.

use crate::shared::Answered;
use http_request::{REQUEST_MAX, Refused, Request};
use runtime::WaitSet;
use runtime::poll_loop::Interest;
use std::io::{self, ErrorKind, Read, Write};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use transport::Stream;
use units::Millis;

/// How long a request may take to arrive.
pub const READ_TIME: Millis = Millis(5_000);
/// How long an answer may wait for a view or a trace.
const WAIT_TIME: Millis = Millis(3_000);
/// How long a client may take to read an answer.
pub const WRITE_TIME: Millis = Millis(15_000);
/// How long a client may send after the end of its answer.
pub const LINGER_TIME: Millis = Millis(2_000);
/// Bytes that are read and dropped after the end of an answer at most: a body that the client sends with its request.
const LINGER_MAX: usize = 16 << 20;
/// Bytes that are read and dropped in one turn.
const LINGER_TURN: usize = 1 << 18;
/// Bytes that are written in one turn at most, so that one fast reader does not delay the others.
const WRITE_MAX: usize = 1 << 20;

/// An answer.
pub struct Answer {
    /// Status code.
    pub code: u16,
    /// Content type.
    pub kind: &'static str,
    /// Body; several connections may send the same one.
    pub body: Arc<Vec<u8>>,
}

impl Answer {
    /// An answer with a body of its own.
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

/// What a connection does.
pub enum State {
    /// It reads a request.
    Reading(Vec<u8>),
    /// The request needs a view that is newer than this one.
    Waiting(Request, u64),
    /// The main thread traces.
    Tracing(Receiver<Answered>),
    /// It sends an answer, from this byte on.
    Writing(Vec<u8>, Arc<Vec<u8>>, usize),
    /// The answer is sent. What the client still sends is dropped, at most this many bytes: a socket that is closed with unread bytes
    /// resets the connection, and a client that is reset may lose an answer that it has not read yet.
    Ending(usize),
}

/// A connection.
pub struct Conn {
    stream: Stream,
    /// What it does.
    pub state: State,
    /// When the present state has taken too long.
    pub deadline: Millis,
    /// It came by TCP.
    pub is_tcp: bool,
    /// When it was accepted.
    pub since: Millis,
    /// The host that it came from, for TCP: an IPv4 address, or the first half of an IPv6 address, of which a host may have many.
    pub source: Option<u64>,
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
    pub fn read(&mut self) -> io::Result<Option<Result<Request, Refused>>> {
        let State::Reading(bytes) = &mut self.state else { return Ok(None) };
        let mut buffer = [0; 2048];
        loop {
            let room = (REQUEST_MAX - bytes.len()).min(buffer.len());
            match self.stream.read(&mut buffer[..room]) {
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
                Err(refused) => return Ok(Some(Err(refused))),
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

    /// Sends what the client takes; after the answer, reads until the client has closed the connection. Returns true then.
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

    /// The body that it sends.
    pub fn body(&self) -> Option<&Arc<Vec<u8>>> {
        match &self.state {
            State::Writing(_, body, _) => Some(body),
            _ => None,
        }
    }

    /// Whether it is waiting for its client to send a request, or to close the connection after the answer.
    pub fn is_reading(&self) -> bool {
        matches!(self.state, State::Reading(_) | State::Ending(_))
    }

    /// Whether its answer is sent.
    pub fn is_ending(&self) -> bool {
        matches!(self.state, State::Ending(_))
    }

    /// Adds the events that it waits for.
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

/// Reads and drops up to `left` bytes. Returns true at the end of the stream, or of `left`.
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
