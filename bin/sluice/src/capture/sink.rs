//! The destination of a capture: a file, a pipe or a terminal, whose reader may stop reading.
//!
//! A pipe is full when 64 KiB wait in it; then `write(2)` blocks until the reader has read. So the program first waits in `poll(2)` until
//! the pipe has space. It stops waiting if a signal has arrived and the reader has read nothing for a second.

use runtime::signals::Signals;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Interval at which signals are checked while the reader does not read.
const SIGNAL_CHECK_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// After a signal, the program ends if the reader has read nothing for this time.
const GRACE_PERIOD: Duration = Duration::from_secs(1);
/// Maximum bytes of one write: a pipe that `poll` reports as writable has at least this much space (`PIPE_BUF`).
const WRITE_SIZE: usize = 4096;
/// Bytes that are collected before they are written.
const FLUSH_SIZE: usize = 1 << 16;

pub struct Sink {
    to: OwnedFd,
    bytes: Vec<u8>,
}

impl Sink {
    pub fn new(to: OwnedFd) -> Sink {
        Sink { to, bytes: Vec::new() }
    }

    /// Adds bytes to the buffer, and writes the buffer if it has [`FLUSH_SIZE`] bytes or more.
    pub fn write(&mut self, bytes: &[u8], signals: &Signals) -> io::Result<()> {
        self.bytes.extend_from_slice(bytes);
        if self.bytes.len() < FLUSH_SIZE { Ok(()) } else { self.flush(signals) }
    }

    /// Writes the buffer. Errors: `BrokenPipe` if the reader has closed the pipe; `TimedOut` if a signal has arrived and the reader has
    /// read nothing for [`GRACE_PERIOD`].
    pub fn flush(&mut self, signals: &Signals) -> io::Result<()> {
        let (mut rest, mut last_write) = (&self.bytes[..], Instant::now());
        while !rest.is_empty() {
            let mut fds = [PollFd::new(&self.to, PollFlags::OUT)];
            let is_ready = poll(&mut fds, Some(&SIGNAL_CHECK_INTERVAL)).is_ok_and(|n| n > 0);
            if is_ready {
                match rustix::io::write(&self.to, &rest[..rest.len().min(WRITE_SIZE)]) {
                    Ok(n) => (rest, last_write) = (&rest[n..], Instant::now()),
                    Err(Errno::INTR | Errno::AGAIN) => {}
                    Err(e) => return Err(e.into()),
                }
            } else if signals.received().is_some() && last_write.elapsed() >= GRACE_PERIOD {
                return Err(io::Error::new(ErrorKind::TimedOut, "the reader of the capture does not read"));
            }
        }
        self.bytes.clear();
        Ok(())
    }
}
