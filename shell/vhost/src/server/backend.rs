//! The interface between the serving thread and the two back-ends: ours, and DPDK's library.

use crate::port_state::PortState;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

/// If a worker is inside a guest's rings for this long, the port is out of service. A burst takes microseconds.
pub const LIMIT: Duration = Duration::from_secs(2);
/// How long a session may spin for workers to leave before it sleeps and checks again.
pub const SPIN: Duration = Duration::from_micros(100);

/// Serves the guests of one port.
pub trait Backend: Send {
    /// The port's state.
    fn port(&self) -> &PortState;
    /// Starts to serve a guest that connected. `closing` counts messages with descriptors that are still being closed.
    fn start(&mut self, guest: OwnedFd, closing: &Arc<AtomicUsize>) -> io::Result<Box<dyn Session>>;
    /// The port is removed. No session exists any more.
    fn forget(&mut self);
}

/// One connection of a guest.
pub trait Session: Send {
    /// Does all work that is possible without blocking.
    fn run(&mut self);
    /// Ends the connection.
    fn close(&mut self);
    /// Checks whether a worker has stayed inside the rings. Returns true if its guest blocked it.
    fn watch(&mut self, now: Instant) -> bool;
    /// Whether `watch` is needed: workers may be inside the rings.
    fn is_watched(&self) -> bool;
    /// Whether the connection has ended and everything that belonged to it was freed.
    fn is_over(&self) -> bool;
    /// Whether the guest closed its end, even if unread messages are left.
    fn has_hung_up(&self) -> bool;
    /// Time until the next `run` if there is no event.
    fn next_check_in(&self, now: Instant) -> Option<Duration>;
    /// Adds the descriptors that the session waits for.
    fn poll_fds<'a>(&'a self, fds: &mut Vec<PollFd<'a>>);
}

/// Whether the peer of this socket closed its end.
pub fn has_hung_up(socket: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(socket, PollFlags::RDHUP)];
    poll(&mut fds, Some(&Timespec::default())).is_ok_and(|n| n > 0)
}
