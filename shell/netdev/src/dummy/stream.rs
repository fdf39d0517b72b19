//! The connections of a dummy: frames over a stream socket, each preceded by its length in two bytes.
//!
//! `options:stream` connects, and connects again after a failure, with increasing delay; `options:pstream` listens. Names
//! are `unix:PATH` and `tcp:ADDRESS:PORT`, or `punix:PATH` and `ptcp:PORT[:ADDRESS]`.

use settings::options::{DUMMY_PSTREAM, DUMMY_STREAM};
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use units::Millis;

/// Maximum number of frames that wait to be sent on one connection. Further frames are dropped.
const SEND_QUEUE_MAX: usize = 100;
/// Maximum number of accepted connections of one dummy.
const MAX_CONNECTIONS: usize = 64;
/// Bytes of an Ethernet header. A shorter frame is an error, which closes the connection.
const MIN_FRAME: usize = 14;
/// Delay before the first repeated attempt to connect; it doubles after each failure, up to `MAX_BACKOFF`.
const MIN_BACKOFF: Millis = Millis(100);
const MAX_BACKOFF: Millis = Millis(1 << 20);
/// State of a dummy's active connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnState {
    /// Connected.
    Connected,
    /// Not connected.
    Disconnected,
    /// No active connection is configured.
    Unknown,
}

/// Maximum number of reads from one connection in one turn.
const READS_PER_TURN: usize = 64;

trait Socket: Read + Write + AsRawFd + Send {}
impl<T: Read + Write + AsRawFd + Send> Socket for T {}

/// One connection.
struct Stream {
    socket: Box<dyn Socket>,
    out: VecDeque<Vec<u8>>,
    /// Number of bytes of the first frame of `out` that were sent already.
    sent: usize,
    input: Vec<u8>,
}

impl Stream {
    fn new(socket: Box<dyn Socket>) -> Stream {
        Stream { socket, out: VecDeque::new(), sent: 0, input: Vec::new() }
    }

    /// Queues a frame to be sent. A frame longer than 65,535 bytes is dropped, as is every frame while the queue is full.
    fn queue(&mut self, frame: &[u8]) {
        let Ok(len) = u16::try_from(frame.len()) else { return };
        if self.out.len() < SEND_QUEUE_MAX {
            let mut bytes = len.to_be_bytes().to_vec();
            bytes.extend(frame);
            self.out.push_back(bytes);
        }
    }

    /// Writes queued frames, and reads up to [`READS_PER_TURN`] times. After an error the connection must be closed.
    fn run(&mut self, received: &mut Vec<Vec<u8>>) -> io::Result<()> {
        while let Some(front) = self.out.front() {
            match self.socket.write(front.get(self.sent..).unwrap_or(&[])) {
                Ok(n) => self.sent += n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) => return Err(e),
            }
            if self.sent >= front.len() {
                self.out.pop_front();
                self.sent = 0;
            }
        }
        for _ in 0..READS_PER_TURN {
            if !self.read_some(received)? {
                break;
            }
        }
        Ok(())
    }

    /// Reads, at most to the end of the current frame. Returns false if no byte can be read now.
    fn read_some(&mut self, received: &mut Vec<Vec<u8>>) -> io::Result<bool> {
        let want = match self.input.get(..2) {
            None => 2,
            Some(prefix) => {
                let len = usize::from(u16::from_be_bytes([prefix[0], prefix[1]]));
                if len < MIN_FRAME {
                    return Err(io::ErrorKind::InvalidData.into());
                }
                2 + len
            }
        };
        let old = self.input.len();
        self.input.resize(want, 0);
        let result = self.socket.read(self.input.get_mut(old..).unwrap_or(&mut []));
        self.input.truncate(old + result.as_ref().copied().unwrap_or(0));
        match result {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => {
                if want > 2 && self.input.len() == want {
                    received.push(self.input.split_off(2));
                    self.input.clear();
                }
                Ok(true)
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(e) => Err(e),
        }
    }
}

enum Listener {
    Unix(UnixListener, String),
    Tcp(TcpListener),
}

impl Listener {
    fn open(name: &str) -> io::Result<Listener> {
        if let Some(path) = name.strip_prefix("punix:") {
            // A crashed process may have left its socket file, and `bind` would fail because of it.
            let _ = std::fs::remove_file(path);
            let listener = UnixListener::bind(path)?;
            listener.set_nonblocking(true)?;
            return Ok(Listener::Unix(listener, path.to_owned()));
        }
        let rest = name.strip_prefix("ptcp:").ok_or(io::ErrorKind::Unsupported)?;
        let (port, address) = rest.split_once(':').unwrap_or((rest, "0.0.0.0"));
        let address: SocketAddr =
            format!("{address}:{port}").parse().map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Listener::Tcp(listener))
    }

    fn accept(&self) -> io::Result<Box<dyn Socket>> {
        match self {
            Listener::Unix(l, _) => {
                let (socket, _) = l.accept()?;
                socket.set_nonblocking(true)?;
                Ok(Box::new(socket))
            }
            Listener::Tcp(l) => {
                let (socket, _) = l.accept()?;
                socket.set_nonblocking(true)?;
                Ok(Box::new(socket))
            }
        }
    }

    fn fd(&self) -> RawFd {
        match self {
            Listener::Unix(l, _) => l.as_raw_fd(),
            Listener::Tcp(l) => l.as_raw_fd(),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Listener::Unix(_, path) = self {
            let _ = std::fs::remove_file(path);
        }
    }
}

fn connect(name: &str) -> io::Result<Box<dyn Socket>> {
    if let Some(path) = name.strip_prefix("unix:") {
        let socket = UnixStream::connect(path)?;
        socket.set_nonblocking(true)?;
        return Ok(Box::new(socket));
    }
    // Short, because the main thread waits.
    const CONNECT_TIMEOUT: std::time::Duration = std::time::Duration::from_millis(5);
    let rest = name.strip_prefix("tcp:").ok_or(io::ErrorKind::Unsupported)?;
    let address: SocketAddr = rest.parse().map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let socket = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT)?;
    socket.set_nonblocking(true)?;
    Ok(Box::new(socket))
}

/// The connections of one dummy.
#[derive(Default)]
pub(super) enum Streams {
    #[default]
    None,
    Passive(Passive),
    Active(Active),
}

/// `options:pstream`: a listening socket and the connections that it accepted.
pub(super) struct Passive {
    name: String,
    listener: Listener,
    streams: Vec<Stream>,
}

/// `options:stream`: a connection that the dummy opens.
pub(super) struct Active {
    name: String,
    stream: Option<Stream>,
    next_try: Millis,
    backoff: Millis,
}

impl Streams {
    /// Applies the options. Connections that are still configured are kept.
    pub(super) fn configure(&mut self, options: &BTreeMap<String, String>) {
        let (passive, active) = (DUMMY_PSTREAM.get(options), DUMMY_STREAM.get(options));
        match (passive, active, &*self) {
            // Both options together are a mistake of the user; the connections are unchanged.
            (Some(_), Some(_), _) => {}
            (Some(name), None, Streams::Passive(p)) if p.name == name => {}
            (None, Some(name), Streams::Active(a)) if a.name == name => {}
            (Some(name), None, _) => {
                *self = Streams::None;
                if let Ok(listener) = Listener::open(name) {
                    *self =
                        Streams::Passive(Passive { name: name.to_owned(), listener, streams: Vec::new() });
                }
            }
            (None, Some(name), _) => {
                let stream = connect(name).ok().map(Stream::new);
                let start = Millis(0);
                *self = Streams::Active(Active {
                    name: name.to_owned(),
                    stream,
                    next_try: start,
                    backoff: MIN_BACKOFF,
                });
            }
            (None, None, _) => *self = Streams::None,
        }
    }

    pub(super) fn options(&self) -> BTreeMap<String, String> {
        match self {
            Streams::None => BTreeMap::new(),
            Streams::Passive(p) => BTreeMap::from([("pstream".to_owned(), p.name.clone())]),
            Streams::Active(a) => BTreeMap::from([("stream".to_owned(), a.name.clone())]),
        }
    }

    pub(super) fn conn_state(&self) -> ConnState {
        match self {
            Streams::Active(Active { stream: Some(_), .. }) => ConnState::Connected,
            Streams::Active(_) => ConnState::Disconnected,
            _ => ConnState::Unknown,
        }
    }

    /// Queues a frame on every connection. `run` sends it.
    pub(super) fn send(&mut self, frame: &[u8]) {
        match self {
            Streams::None => {}
            Streams::Passive(p) => p.streams.iter_mut().for_each(|s| s.queue(frame)),
            Streams::Active(a) => a.stream.iter_mut().for_each(|s| s.queue(frame)),
        }
    }

    /// One turn: accepts, connects, writes and reads. Returns the time of the next attempt to connect.
    pub(super) fn run(&mut self, now: Millis, received: &mut Vec<Vec<u8>>) -> Millis {
        match self {
            Streams::None => Millis::NEVER,
            Streams::Passive(p) => {
                while p.streams.len() < MAX_CONNECTIONS
                    && let Ok(socket) = p.listener.accept()
                {
                    p.streams.push(Stream::new(socket));
                }
                p.streams.retain_mut(|s| s.run(received).is_ok());
                Millis::NEVER
            }
            Streams::Active(a) => a.run(now, received),
        }
    }

    pub(super) fn poll_fds(&self) -> Vec<(RawFd, bool)> {
        let of = |s: &Stream| (s.socket.as_raw_fd(), !s.out.is_empty());
        match self {
            Streams::None => Vec::new(),
            Streams::Passive(p) => {
                std::iter::once((p.listener.fd(), false)).chain(p.streams.iter().map(of)).collect()
            }
            Streams::Active(a) => a.stream.iter().map(of).collect(),
        }
    }
}

impl Active {
    fn run(&mut self, now: Millis, received: &mut Vec<Vec<u8>>) -> Millis {
        if self.stream.is_none() && now >= self.next_try {
            match connect(&self.name) {
                Ok(socket) => {
                    self.stream = Some(Stream::new(socket));
                    self.backoff = MIN_BACKOFF;
                }
                Err(_) => {
                    self.next_try = now + self.backoff;
                    self.backoff = (self.backoff + self.backoff).min(MAX_BACKOFF);
                }
            }
        }
        let Some(stream) = &mut self.stream else { return self.next_try };
        if stream.run(received).is_err() {
            self.stream = None;
            self.next_try = now + self.backoff;
            return self.next_try;
        }
        Millis::NEVER
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_cross_a_unix_socket() {
        let path = std::env::temp_dir().join(format!("dummy-stream-{}", std::process::id()));
        let path = path.display();
        let mut a = Streams::default();
        a.configure(&BTreeMap::from([("pstream".to_owned(), format!("punix:{path}"))]));
        let mut b = Streams::default();
        assert_eq!(b.conn_state(), ConnState::Unknown);
        b.configure(&BTreeMap::from([("stream".to_owned(), format!("unix:{path}"))]));
        assert_eq!(b.conn_state(), ConnState::Connected);
        let (mut at_a, mut at_b) = (Vec::new(), Vec::new());
        a.run(Millis(0), &mut at_a);
        b.send(&[7; 60]);
        b.send(&[8; 1000]);
        b.run(Millis(0), &mut at_b);
        a.run(Millis(0), &mut at_a);
        assert_eq!(at_a, [vec![7; 60], vec![8; 1000]]);
        a.configure(&BTreeMap::new());
        assert_eq!(b.run(Millis(5), &mut at_b), Millis(105));
        assert_eq!(b.conn_state(), ConnState::Disconnected);
    }
}
