//! Serves the packets of a capture to one client: pcapng over a Unix socket.
//!
//! [`start`] starts the capture and a thread that waits for the client. The socket is in the daemon's run directory and has the
//! mode of the control socket. Only the first client is served.
//!
//! The capture ends when the client closes its connection or shuts down its sending direction. In the second case the client still
//! receives the waiting packets and the statistics. The capture also ends if no client connects within [`CONNECT_TIME`]. The socket's
//! file is removed when the capture ends.
//!
//! **Bounds**: at most about [`WAITING_MAX`] bytes wait for the client, in addition to the memory of the capture. A client that
//! does not read loses packets of its own capture, and nothing else.
//!
//! **Threads**: one for each capture. It holds no lock for which a worker waits.

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

/// Time limit for a client to connect.
pub const CONNECT_TIME: Duration = Duration::from_secs(10);
/// Packets are taken from the capture only while fewer encoded bytes than this wait for the client.
const WAITING_MAX: usize = 1 << 20;
/// Interval at which packets are taken. A shorter interval would wake an idle capture more often; a longer one delays the user's output.
const TAKE_INTERVAL: Duration = Duration::from_millis(20);
/// Time limit for a client that has shut down its sending direction to read the remaining packets.
const DRAIN_TIME: Duration = Duration::from_secs(5);

/// The clock of captures: a monotonic clock, converted to nanoseconds since 1970.
#[derive(Clone, Copy, Debug)]
pub struct WallClock {
    start: Instant,
    since_1970: u64,
}

impl WallClock {
    /// Reads the system time once; from then on the monotonic clock counts.
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

/// Starts a capture, and the thread that serves it at the socket `path`.
pub fn start(datapath: Arc<Datapath>, capture: Arc<Capture>, names: Names, path: &Path) -> io::Result<()> {
    let listener = Listener::bind(&Target::PUnix(path.to_path_buf()))?;
    if datapath.start_capture(&capture).is_err() {
        let most = datapath::capture::CAPTURES_MAX;
        return Err(io::Error::other(format!("{most} captures run already")));
    }
    let (served_datapath, served) = (Arc::clone(&datapath), Arc::clone(&capture));
    let thread = std::thread::Builder::new().name("capture".to_owned());
    let started = thread.spawn(move || {
        serve(&listener, &served, &names, || served_datapath.stop_capture(&served));
        // `serve` calls `stop` only after a client has ended the capture; this call covers all other ends. A second call has no effect.
        served_datapath.stop_capture(&served);
    });
    if started.is_err() {
        datapath.stop_capture(&capture);
    }
    started.map(|_| ())
}

/// Waits for one of these events, at most for this time.
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
            Ok(None) => {
                return runtime::warn!(
                    LOG,
                    "no client connected within {} s, ending capture",
                    CONNECT_TIME.as_secs()
                );
            }
            Err(e) => return runtime::warn!(LOG, "a capture ends: {}", runtime::error_text(&e)),
        }
    };
    if let Err(e) = stream_packets(client, capture, names, stop)
        && !matches!(e.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset)
    {
        runtime::warn!(LOG, "a capture ends: {}", runtime::error_text(&e));
    }
}

/// Sends packets until the client shuts down its sending direction. Then calls `stop`, which ends the capture, and sends the rest.
fn stream_packets(mut client: Stream, capture: &Capture, names: &Names, stop: impl Fn()) -> io::Result<()> {
    let mut encoder = Encoder::new(capture, names);
    while !has_ended(&mut client)? {
        if encoder.waiting() < WAITING_MAX {
            encoder.take(capture);
        }
        send(&mut client, &mut encoder)?;
        let flags = if encoder.waiting() == 0 { PollFlags::empty() } else { PollFlags::OUT };
        // New packets do not wake this thread: they are taken once in each `TAKE_INTERVAL`.
        wait(&client, flags | PollFlags::IN, TAKE_INTERVAL);
    }
    stop();
    // Workers notice in their next iteration that the capture has ended. A worker that sleeps in `poll(2)` adds no packet.
    std::thread::sleep(TAKE_INTERVAL);
    encoder.finish(capture);
    let deadline = Instant::now() + DRAIN_TIME;
    while encoder.waiting() != 0 && Instant::now() < deadline {
        send(&mut client, &mut encoder)?;
        wait(&client, PollFlags::OUT, TAKE_INTERVAL);
    }
    Ok(())
}

/// Whether the client has shut down its sending direction. Data from the client are ignored.
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
