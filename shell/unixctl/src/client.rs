//! The blocking client.

use ovsdb::stream::Limits;
use ovsdb::{Json, Message, Splitter};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, ErrorKind, Read};
use std::path::Path;
use std::time::{Duration, Instant};
use transport::{Outbox, Stream, Target};

/// Longest reply, in bytes: dumps of large flow tables must fit.
const MAX_REPLY: usize = 1 << 30;
const PIECE: usize = 64 * 1024;
const RETRY: Duration = Duration::from_millis(10);

/// A connection to a daemon's control socket.
pub struct Client {
    stream: Stream,
    splitter: Splitter,
    deadline: Option<Instant>,
    next_id: u64,
}

impl Client {
    /// Connects; `timeout` limits the whole life of the client.
    pub fn connect(path: &Path, timeout: Option<Duration>) -> io::Result<Client> {
        let deadline = timeout.and_then(|t| Instant::now().checked_add(t));
        let target = Target::Unix(path.into());
        let stream = loop {
            match Stream::connect(&target) {
                // Connecting to a Unix socket with a full backlog fails at once; try again until the timeout.
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    time_left(deadline)?;
                    std::thread::sleep(RETRY);
                }
                other => break other?,
            }
        };
        Ok(Client::over(stream, deadline))
    }

    pub(crate) fn over(stream: Stream, deadline: Option<Instant>) -> Client {
        Client { stream, splitter: Splitter::new(Limits::of_bytes(MAX_REPLY)), deadline, next_id: 0 }
    }

    /// Sends one command: returns the daemon's reply or error, or how the connection failed (`TimedOut` after
    /// the timeout, `UnexpectedEof` if the daemon closed it).
    pub fn call(&mut self, method: &str, args: &[String]) -> io::Result<Result<Json, Json>> {
        let id = Json::from(self.next_id);
        self.next_id += 1;
        let request = Message::request(method, Json::from(args.to_vec()), id.clone());
        let mut outbox = Outbox::new();
        outbox.push(request.to_string().as_bytes());
        loop {
            outbox.flush(&mut self.stream)?;
            if outbox.is_empty() {
                break;
            }
            self.wait(PollFlags::OUT)?;
        }
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
        let mut piece = vec![0; PIECE];
        loop {
            let value = self.splitter.next_value();
            if let Some(v) = value.map_err(|e| io::Error::new(ErrorKind::InvalidData, e.to_string()))? {
                return Ok(v);
            }
            match self.stream.read(&mut piece) {
                Ok(0) => return Err(io::Error::new(ErrorKind::UnexpectedEof, "End of file")),
                Ok(n) => self.splitter.push(piece.get(..n).unwrap_or_default()),
                Err(e) if e.kind() == ErrorKind::WouldBlock => self.wait(PollFlags::IN)?,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }

    fn wait(&self, flags: PollFlags) -> io::Result<()> {
        let timeout = time_left(self.deadline)?.map(|left| Timespec {
            tv_sec: left.as_secs().min(i32::MAX as u64) as _,
            tv_nsec: left.subsec_nanos() as _,
        });
        match poll(&mut [PollFd::new(&self.stream, flags)], timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }
}

/// The time until the deadline, `None` without one; an error once it has passed.
fn time_left(deadline: Option<Instant>) -> io::Result<Option<Duration>> {
    let left = deadline.map(|d| d.saturating_duration_since(Instant::now()));
    match left {
        Some(Duration::ZERO) => Err(ErrorKind::TimedOut.into()),
        left => Ok(left),
    }
}
