//! Serves the packets of a capture to one client: pcapng over a Unix socket.
//!
//! [`start`] starts the capture and a thread that waits for the client. The socket is in the daemon's run directory and has the
//! mode of the control socket. The first client gets the packets; then the socket's file is removed. The capture ends when the
//! client closes its connection or ends its sending direction. In the second case it still gets the waiting packets and the
//! statistics. The capture also ends if no client connects within [`CONNECT_TIME`].
//!
//! **Bounds**: [`WAITING_MAX`] bytes that the client has not read yet, in addition to the memory of the capture. A client that
//! stops reading loses packets of its own capture, and nothing else.
//!
//! **Threads**: one for each capture. It takes no lock that a worker waits for.

mod encode;
mod names;

pub use names::Names;

use datapath::Datapath;
use datapath::capture::Capture;
use encode::Encoder;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use transport::{Listener, Stream, Target};
use units::Nanos;

static LOG: runtime::Module = runtime::Module::new("capture");

/// How long the daemon waits for the client.
pub const CONNECT_TIME: Duration = Duration::from_secs(10);
/// Packets are taken only while fewer encoded bytes than this wait for the client.
const WAITING_MAX: usize = 1 << 20;
/// How often packets are taken. A shorter time would wake an idle capture more often, a longer one delays what a user sees.
const TURN: Duration = Duration::from_millis(20);
/// How long a client that has ended its sending direction may take to read the rest.
const DRAIN_TIME: Duration = Duration::from_secs(5);

/// The clock of captures: it reads nanoseconds since an instant, and knows when that was.
#[derive(Clone, Copy, Debug)]
pub struct WallClock {
    start: Instant,
    since_1970: u64,
}

impl WallClock {
    /// A clock that starts now.
    pub fn new() -> WallClock {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        WallClock { start: Instant::now(), since_1970: now.map_or(0, |d| d.as_nanos() as u64) }
    }

    /// Nanoseconds since 1970.
    pub fn now(&self) -> Nanos {
        Nanos(self.since_1970 + self.start.elapsed().as_nanos() as u64)
    }
}

impl Default for WallClock {
    fn default() -> WallClock {
        WallClock::new()
    }
}

/// Starts a capture, and the thread that serves it at this socket.
pub fn start(datapath: Arc<Datapath>, capture: Arc<Capture>, names: Names, path: &Path) -> io::Result<()> {
    let listener = Listener::bind(&Target::PUnix(path.to_path_buf()))?;
    if datapath.start_capture(&capture).is_err() {
        let most = datapath::capture::CAPTURES_MAX;
        return Err(io::Error::other(format!("{most} captures run already")));
    }
    let (data, one) = (Arc::clone(&datapath), Arc::clone(&capture));
    let thread = std::thread::Builder::new().name("capture".to_owned());
    let started = thread.spawn(move || {
        serve(&listener, &one, &names, || data.stop_capture(&one));
        // Also if no client came, or the connection failed.
        data.stop_capture(&one);
    });
    if started.is_err() {
        datapath.stop_capture(&capture);
    }
    started.map(|_| ())
}

/// Waits until one of these events, or for this long.
fn wait(fd: impl AsFd, flags: PollFlags, within: Duration) {
    let time = Timespec { tv_sec: within.as_secs() as i64, tv_nsec: within.subsec_nanos().into() };
    // If a signal interrupts the call, the caller's loop calls it again.
    let _ = poll(&mut [PollFd::new(&fd, flags)], Some(&time));
}

fn serve(listener: &Listener, capture: &Capture, names: &Names, stop: impl Fn()) {
    let deadline = Instant::now() + CONNECT_TIME;
    let client = loop {
        match listener.accept() {
            Ok(Some(client)) => break client,
            Ok(None) if Instant::now() < deadline => wait(listener, PollFlags::IN, deadline - Instant::now()),
            Ok(None) => return runtime::warn!(LOG, "no client has come for a capture: it ends"),
            Err(e) => return runtime::warn!(LOG, "a capture ends: {}", runtime::error_text(&e)),
        }
    };
    if let Err(e) = stream_packets(client, capture, names, stop)
        && !matches!(e.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset)
    {
        runtime::warn!(LOG, "a capture ends: {}", runtime::error_text(&e));
    }
}

/// Sends packets until the client ends. `stop` ends the capture.
fn stream_packets(mut client: Stream, capture: &Capture, names: &Names, stop: impl Fn()) -> io::Result<()> {
    let mut encoder = Encoder::new(capture, names);
    while !has_ended(&mut client)? {
        if encoder.waiting() < WAITING_MAX {
            encoder.take(capture);
        }
        send(&mut client, &mut encoder)?;
        let flags = if encoder.waiting() == 0 { PollFlags::empty() } else { PollFlags::OUT };
        // New packets do not wake this thread: they are taken once in each turn.
        wait(&client, flags | PollFlags::IN, TURN);
    }
    stop();
    // Workers see in their next iteration that the capture has ended. A worker that sleeps in `poll(2)` adds no packet.
    std::thread::sleep(TURN);
    encoder.finish(capture);
    let deadline = Instant::now() + DRAIN_TIME;
    while encoder.waiting() != 0 && Instant::now() < deadline {
        send(&mut client, &mut encoder)?;
        wait(&client, PollFlags::OUT, TURN);
    }
    Ok(())
}

/// Whether the client has ended its sending direction. What it sends is ignored.
fn has_ended(client: &mut Stream) -> io::Result<bool> {
    match client.read(&mut [0; 256]) {
        Ok(0) => Ok(true),
        Ok(_) => Ok(false),
        Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(false),
        Err(e) => Err(e),
    }
}

fn send(client: &mut Stream, encoder: &mut Encoder<'_>) -> io::Result<()> {
    while encoder.waiting() != 0 {
        match client.write(encoder.bytes()) {
            Ok(0) => return Err(ErrorKind::BrokenPipe.into()),
            Ok(n) => encoder.consume(n),
            Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
