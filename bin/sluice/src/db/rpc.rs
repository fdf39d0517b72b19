//! A connection to a database server for one request after another.

use crate::remote::{self, Stream};
use ovsdb::{Json, Message, Splitter};
use runtime::{Dirs, error_text};
use std::collections::VecDeque;
use std::io;

/// A copy of a whole database is one message.
const MAX_MESSAGE: usize = 1 << 30;

/// The connection.
pub struct Rpc {
    /// The server, as it was named.
    pub name: String,
    stream: Stream,
    splitter: Splitter,
    last_id: u64,
    early: VecDeque<Message>,
}

impl Rpc {
    /// Connects, or waits to be called.
    pub fn open(server: &str, dirs: &Dirs) -> Result<Rpc, String> {
        let failed = |e: &io::Error| {
            let or_listen = match e.raw_os_error() == remote::unsupported().raw_os_error() {
                true => " or listen",
                false => "",
            };
            format!("failed to connect{or_listen} to \"{server}\" ({})", error_text(e))
        };
        let targets = remote::targets(server, transport::OVSDB_PORT, dirs).unwrap_or_default();
        let mut why = remote::unsupported();
        for target in targets {
            match Stream::open(&target, None) {
                Ok(stream) => {
                    let splitter = Splitter::new(MAX_MESSAGE);
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

    /// Sends a request; the answer will bear the ID.
    pub fn send(&mut self, method: &str, params: Json) -> io::Result<Json> {
        self.last_id += 1;
        let id = Json::from(self.last_id);
        self.stream.send(Message::request(method, params, id.clone()).to_string().as_bytes())?;
        Ok(id)
    }

    /// The next message that is not about the connection itself.
    pub fn receive(&mut self) -> io::Result<Message> {
        if let Some(message) = self.early.pop_front() {
            return Ok(message);
        }
        let protocol = || io::Error::from(rustix::io::Errno::PROTO);
        let mut buffer = [0; 65536];
        loop {
            while let Some(json) = self.splitter.next_value().map_err(|_| protocol())? {
                match Message::from_json(json).map_err(|_| protocol())? {
                    Message::Request { method, params, id } if method == "echo" => {
                        self.stream.send(Message::Reply { result: params, id }.to_string().as_bytes())?;
                    }
                    message => return Ok(message),
                }
            }
            match self.stream.receive(&mut buffer)? {
                0 => return Err(io::Error::other("End of file")),
                n => self.splitter.push(buffer.get(..n).unwrap_or_default()),
            }
        }
    }

    /// One request and its answer, good or bad; what comes before the answer is kept.
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

    /// The same; anything but a good answer is the end.
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
