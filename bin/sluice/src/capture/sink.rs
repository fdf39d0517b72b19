//! The destination of a capture: a file, a pipe or a terminal, whose reader may stop reading.
//!
//! A pipe is full when 64 KiB wait in it; then a write does not return until its reader has read. So the program first waits in `poll(2)` until
//! the pipe has room. It stops waiting if a signal has asked it to end and nothing was read for a second.

use runtime::signals::Signals;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// How often signals are looked at while the reader does not read.
const TURN: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// How long the reader may read nothing after a signal.
const GRACE: Duration = Duration::from_secs(1);
/// Bytes of a write: a pipe that is ready to be written has at least this much space (`PIPE_BUF`).
const PART: usize = 4096;
/// Bytes that are collected before they are written.
const COLLECTED: usize = 1 << 16;

pub struct Sink {
    to: OwnedFd,
    bytes: Vec<u8>,
}

impl Sink {
    pub fn new(to: OwnedFd) -> Sink {
        Sink { to, bytes: Vec::new() }
    }

    /// Adds bytes, and writes them if there are many.
    pub fn put(&mut self, bytes: &[u8], signals: &Signals) -> io::Result<()> {
        self.bytes.extend_from_slice(bytes);
        if self.bytes.len() < COLLECTED { Ok(()) } else { self.flush(signals) }
    }

    /// Writes the bytes that were added. Errors: `BrokenPipe` if the reader has closed the pipe; `TimedOut` if a signal has arrived and
    /// nothing was read for [`GRACE`].
    pub fn flush(&mut self, signals: &Signals) -> io::Result<()> {
        let (mut rest, mut read) = (&self.bytes[..], Instant::now());
        while !rest.is_empty() {
            let mut fds = [PollFd::new(&self.to, PollFlags::OUT)];
            let is_ready = poll(&mut fds, Some(&TURN)).is_ok_and(|n| n > 0);
            if is_ready {
                match rustix::io::write(&self.to, &rest[..rest.len().min(PART)]) {
                    Ok(n) => (rest, read) = (&rest[n..], Instant::now()),
                    Err(Errno::INTR | Errno::AGAIN) => {}
                    Err(e) => return Err(e.into()),
                }
            } else if signals.received().is_some() && read.elapsed() >= GRACE {
                return Err(io::Error::new(ErrorKind::TimedOut, "the reader of the capture does not read"));
            }
        }
        self.bytes.clear();
        Ok(())
    }
}
