//! Blocking client of a control socket.

use ovsdb::stream::Limits;
use ovsdb::{Json, Message, Splitter};
use std::io::{self, ErrorKind};
use std::path::Path;
use std::time::{Duration, Instant};
use transport::{BlockingStream, Target};

/// Longest reply, in bytes. The limit is high, because dumps of large flow tables must fit.
const MAX_REPLY: usize = 1 << 30;
const READ_SIZE: usize = 64 * 1024;

/// A connection to a daemon's control socket.
pub struct Client {
    stream: BlockingStream,
    splitter: Splitter,
    next_id: u64,
}

impl Client {
    /// Connects. `timeout` limits the time from now to the end of the last call.
    pub fn connect(path: &Path, timeout: Option<Duration>) -> io::Result<Client> {
        let deadline = timeout.and_then(|t| Instant::now().checked_add(t));
        Ok(Client::from_stream(BlockingStream::open(&Target::Unix(path.into()), deadline)?))
    }

    pub(crate) fn from_stream(stream: BlockingStream) -> Client {
        Client { stream, splitter: Splitter::new(Limits::of_bytes(MAX_REPLY)), next_id: 0 }
    }

    /// Sends one command and waits for the reply. Returns the daemon's result or error reply, or the error of the connection
    /// (`TimedOut` after the timeout, `UnexpectedEof` if the daemon has closed the connection).
    pub fn call(&mut self, method: &str, args: &[String]) -> io::Result<Result<Json, Json>> {
        let id = Json::from(self.next_id);
        self.next_id += 1;
        let request = Message::request(method, Json::from(args.to_vec()), id.clone());
        self.stream.send(request.to_string().as_bytes())?;
        let invalid = |e: String| io::Error::new(ErrorKind::InvalidData, e);
        loop {
            match Message::from_json(self.next_value()?).map_err(|e| invalid(e.into()))? {
                Message::Reply { result, id: of } if of == id => return Ok(Ok(result)),
                Message::Error { error, id: of } if of == id => return Ok(Err(error)),
                _ => {}
            }
        }
    }

    fn next_value(&mut self) -> io::Result<Json> {
        let mut piece = vec![0; READ_SIZE];
        loop {
            let value = self.splitter.next_value();
            if let Some(v) = value.map_err(|e| io::Error::new(ErrorKind::InvalidData, e.to_string()))? {
                return Ok(v);
            }
            match self.stream.receive(&mut piece)? {
                0 => return Err(io::Error::new(ErrorKind::UnexpectedEof, "End of file")),
                n => self.splitter.push(piece.get(..n).unwrap_or_default()),
            }
        }
    }
}
