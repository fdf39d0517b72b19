//! A connection to a database server, for one request at a time.

use crate::remote::{self, Stream};
use ovsdb::stream::Limits;
use ovsdb::{Json, Message, Splitter};
use runtime::poll_loop::{Interest, WaitSet};
use runtime::{Dirs, error_text};
use std::collections::VecDeque;
use std::io;

/// Longest message, in bytes. The limit is high, because a copy of a complete database is one message.
const MAX_MESSAGE: usize = 1 << 30;

/// The connection.
pub struct Rpc {
    /// The server, as the user named it.
    pub name: String,
    stream: Stream,
    splitter: Splitter,
    last_id: u64,
    /// Messages that arrived while `call` waited for its reply; `receive` and `poll` return them first.
    early: VecDeque<Message>,
}

impl Rpc {
    /// Connects, or listens and waits for a connection.
    pub fn open(server: &str, dirs: &Dirs) -> Result<Rpc, String> {
        let failed = |e: &io::Error| {
            let or_listen = match e.raw_os_error() == remote::unsupported().raw_os_error() {
                true => " or listen",
                false => "",
            };
            let why = error_text(e);
            let hint = crate::common::hint_about(&why, "");
            format!("failed to connect{or_listen} to \"{server}\" ({why}){hint}")
        };
        let targets = remote::targets(server, transport::OVSDB_PORT, dirs).unwrap_or_default();
        let mut why = remote::unsupported();
        for target in targets {
            match Stream::open(&target, None) {
                Ok(stream) => {
                    let splitter = Splitter::new(Limits::of_bytes(MAX_MESSAGE));
                    return Ok(Rpc {
                        name: server.into(),
                        stream,
                        splitter,
                        last_id: 0,
                        early: VecDeque::new(),
                    });
                }
                Err(e) => why = e,
            }
        }
        Err(failed(&why))
    }

    /// Sends a request and returns its ID; the reply has the same ID.
    pub fn send(&mut self, method: &str, params: Json) -> io::Result<Json> {
        self.last_id += 1;
        let id = Json::from(self.last_id);
        self.stream.send(Message::request(method, params, id.clone()).to_string().as_bytes())?;
        Ok(id)
    }

    /// Waits for the next message. Echo requests are answered and not returned.
    pub fn receive(&mut self) -> io::Result<Message> {
        let mut buffer = [0; 65536];
        loop {
            if let Some(message) = self.next_complete()? {
                return Ok(message);
            }
            let n = self.stream.receive(&mut buffer)?;
            self.push_bytes(buffer.get(..n).unwrap_or_default())?;
        }
    }

    /// The next message that has arrived; `None` if none has arrived, see [`Rpc::wait`].
    pub fn poll(&mut self) -> io::Result<Option<Message>> {
        let mut buffer = [0; 65536];
        loop {
            if let Some(message) = self.next_complete()? {
                return Ok(Some(message));
            }
            let Some(n) = self.stream.receive_now(&mut buffer)? else { return Ok(None) };
            self.push_bytes(buffer.get(..n).unwrap_or_default())?;
        }
    }

    /// Adds the socket to `set`, so that the caller wakes when [`Rpc::poll`] may return a message.
    pub fn wait<'a>(&'a self, set: &mut WaitSet<'a>) {
        set.fd(self.stream.socket(), Interest::Read);
    }

    fn push_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            return Err(io::Error::other("End of file"));
        }
        self.splitter.push(bytes);
        Ok(())
    }

    fn next_complete(&mut self) -> io::Result<Option<Message>> {
        if let Some(message) = self.early.pop_front() {
            return Ok(Some(message));
        }
        let protocol = || io::Error::from(rustix::io::Errno::PROTO);
        while let Some(json) = self.splitter.next_value().map_err(|_| protocol())? {
            match Message::from_json(json).map_err(|_| protocol())? {
                Message::Request { method, params, id } if method == "echo" => {
                    self.stream.send(Message::Reply { result: params, id }.to_string().as_bytes())?;
                }
                message => return Ok(Some(message)),
            }
        }
        Ok(None)
    }

    /// Sends a request and waits for its reply or error reply. Messages that arrive before the reply are kept for
    /// `receive`.
    pub fn call(&mut self, method: &str, params: Json) -> io::Result<Result<Json, Json>> {
        let id = self.send(method, params)?;
        let mut early = VecDeque::new();
        let answer = loop {
            match self.receive()? {
                Message::Reply { result, id: of } if of == id => break Ok(result),
                Message::Error { error, id: of } if of == id => break Err(error),
                other => early.push_back(other),
            }
        };
        self.early.extend(early);
        Ok(answer)
    }

    /// Sends a request and waits for its reply; an error reply is returned as an error.
    pub fn ask(&mut self, method: &str, params: Json) -> Result<Json, String> {
        match self.call(method, params) {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(error)) => {
                Err(format!("transaction returned error: {}", ovsdb::json::sorted_string(&error)))
            }
            Err(e) => Err(format!("transaction failed ({})", error_text(&e))),
        }
    }
}
