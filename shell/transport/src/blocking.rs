//! A stream with blocking functions, for tools and clients that do one thing at a time.

use crate::{Listener, Stream, Target};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Time after which a connection to a Unix socket is tried again if its backlog is full. Such an attempt fails at once.
const RETRY: Duration = Duration::from_millis(10);

/// A connected stream with blocking functions. If there is a deadline, they fail with `TimedOut` when it has passed.
#[derive(Debug)]
pub struct BlockingStream {
    stream: Stream,
    deadline: Option<Instant>,
}

impl BlockingStream {
    /// Connects to an active target. At a passive target, it accepts one connection and closes the listening socket.
    pub fn open(target: &Target, deadline: Option<Instant>) -> io::Result<BlockingStream> {
        let stream =
            if target.is_passive() { accept_one(target, deadline)? } else { connect(target, deadline)? };
        let mut this = BlockingStream::over(stream, deadline);
        while !this.stream.connect_progress()? {
            let writable = this.stream.connect_waits_for_write();
            wait(&this.stream, if writable { PollFlags::OUT } else { PollFlags::IN }, deadline)?;
        }
        Ok(this)
    }

    /// Creates a blocking stream from one that is connected.
    pub fn over(stream: Stream, deadline: Option<Instant>) -> BlockingStream {
        BlockingStream { stream, deadline }
    }

    /// Sends all bytes.
    pub fn send(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.stream.write(bytes) {
                Ok(n) => bytes = bytes.get(n..).unwrap_or_default(),
                Err(e) => self.wait_after(e)?,
            }
        }
        while let Err(e) = self.stream.flush() {
            self.wait_after(e)?;
        }
        Ok(())
    }

    /// Waits for bytes; returns 0 at the end of the stream.
    pub fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.receive_now(buffer)? {
                Some(n) => return Ok(n),
                None => wait(&self.stream, PollFlags::IN, self.deadline)?,
            }
        }
    }

    /// Reads bytes without waiting. Returns 0 at the end of the stream, and `None` if no bytes have arrived.
    pub fn receive_now(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            match self.stream.read(buffer) {
                Ok(n) => return Ok(Some(n)),
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// The socket, to wait for more bytes.
    pub fn socket(&self) -> &impl AsFd {
        &self.stream
    }

    /// Waits until the stream is writable if a write failed with `WouldBlock`; returns other errors.
    fn wait_after(&self, error: io::Error) -> io::Result<()> {
        match error.kind() {
            ErrorKind::WouldBlock => wait(&self.stream, PollFlags::OUT, self.deadline),
            ErrorKind::Interrupted => Ok(()),
            _ => Err(error),
        }
    }
}

fn connect(target: &Target, deadline: Option<Instant>) -> io::Result<Stream> {
    loop {
        match Stream::connect(target) {
            Err(e) if e.kind() == ErrorKind::WouldBlock => {
                time_left(deadline)?;
                std::thread::sleep(RETRY);
            }
            other => return other,
        }
    }
}

fn accept_one(target: &Target, deadline: Option<Instant>) -> io::Result<Stream> {
    let listener = Listener::bind(target)?;
    loop {
        if let Some(stream) = listener.accept()? {
            return Ok(stream);
        }
        wait(&listener, PollFlags::IN, deadline)?;
    }
}

fn wait(on: &impl AsFd, flags: PollFlags, deadline: Option<Instant>) -> io::Result<()> {
    let timeout = time_left(deadline)?.map(|left| Timespec {
        tv_sec: left.as_secs().min(i32::MAX as u64) as _,
        tv_nsec: left.subsec_nanos() as _,
    });
    match poll(&mut [PollFd::new(on, flags)], timeout.as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(e) => Err(e.into()),
    }
}

/// The time until the deadline, `None` without one; an error once it has passed.
fn time_left(deadline: Option<Instant>) -> io::Result<Option<Duration>> {
    let left = deadline.map(|d| d.saturating_duration_since(Instant::now()));
    if left == Some(Duration::ZERO) { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_of_meeting() {
        let path = std::env::temp_dir().join(format!("sluice-waiting-{}", std::process::id()));
        let soon = Some(Instant::now() + Duration::from_secs(10));
        let (at, active) = (Target::PUnix(path.clone()), Target::Unix(path));
        let server = std::thread::spawn(move || {
            let mut stream = BlockingStream::open(&at, soon).unwrap();
            let mut buffer = [0; 16];
            let n = stream.receive(&mut buffer).unwrap();
            stream.send(&buffer[..n]).unwrap();
        });
        let mut stream = loop {
            match BlockingStream::open(&active, soon) {
                Ok(stream) => break stream,
                Err(_) => std::thread::sleep(RETRY),
            }
        };
        stream.send(b"hello").unwrap();
        let mut buffer = [0; 16];
        assert_eq!(stream.receive(&mut buffer).unwrap(), 5);
        assert_eq!(stream.receive(&mut buffer).unwrap(), 0);
        server.join().unwrap();
        assert_eq!(time_left(Some(Instant::now())).unwrap_err().kind(), ErrorKind::TimedOut);
    }
}
