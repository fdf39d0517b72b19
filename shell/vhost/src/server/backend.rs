//! The interface between the serving thread and the two back-ends: this crate's, and the one for DPDK's library.

use crate::port_state::PortState;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

/// If a worker accesses a guest's rings for this long, the port is put out of service. A burst takes microseconds.
pub const STUCK_LIMIT: Duration = Duration::from_secs(2);
/// How long a session may spin until workers end their accesses. After that it sleeps and checks again.
pub const SPIN: Duration = Duration::from_micros(100);

/// Serves the guests of one port.
pub trait Backend: Send {
    /// The port's state.
    fn port(&self) -> &PortState;
    /// Starts to serve a guest that connected. `closing`: the number of messages whose file descriptors are still being closed.
    fn start(&mut self, guest: OwnedFd, closing: &Arc<AtomicUsize>) -> io::Result<Box<dyn Session>>;
    /// Called when the port is removed. No session exists any more.
    fn unregister(&mut self);
}

/// One connection of a guest.
pub trait Session: Send {
    /// Does all work that is possible without blocking.
    fn run(&mut self);
    /// Ends the connection.
    fn close(&mut self);
    /// Checks whether a worker's access to the rings lasts too long. Returns true if the guest blocked the worker.
    fn check_stuck_workers(&mut self, now: Instant) -> bool;
    /// Whether `check_stuck_workers` must be called, because workers may access the rings.
    fn needs_worker_check(&self) -> bool;
    /// Whether the connection has ended and all its memory was freed.
    fn is_over(&self) -> bool;
    /// Whether the guest closed its end, even if unread messages are left.
    fn has_hung_up(&self) -> bool;
    /// Time until `run` must be called even if there is no event; `None`: only after an event.
    fn next_check_in(&self, now: Instant) -> Option<Duration>;
    /// Adds the file descriptors for which the session waits.
    fn poll_fds<'a>(&'a self, fds: &mut Vec<PollFd<'a>>);
}

/// Whether the peer of this socket closed its end.
pub fn has_hung_up(socket: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(socket, PollFlags::RDHUP)];
    poll(&mut fds, Some(&Timespec::default())).is_ok_and(|n| n > 0)
}
