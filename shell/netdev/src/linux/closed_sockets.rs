//! Closed sockets whose buffers may not be reused yet.
//!
//! A socket that shares a umem owns the buffers on its rings. They may be reused when the kernel has released the
//! socket. That requires that all its file descriptors are closed (a worker may hold one for some time), and that none of its packets
//! is in flight. In copy mode the kernel waits for packets in flight when it closes a socket. The delay here is
//! for copies of the file descriptor: a child process that is being started has one until it executes its program.

use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Time from the last close until the buffers may be reused: a child process that is being started executes its program sooner.
const DELAY: Duration = Duration::from_millis(100);

struct ClosedSocket<T> {
    /// The file descriptor. The socket is open while another owner holds it.
    fd: Weak<OwnedFd>,
    /// When this module found the socket closed; `None`: not yet.
    closed: Option<Instant>,
    /// Identifies the buffers that are freed after the socket.
    owned: T,
}

/// Closed sockets, each with the value that identifies its buffers.
pub struct ClosedSockets<T>(Mutex<Vec<ClosedSocket<T>>>);

impl<T> Default for ClosedSockets<T> {
    fn default() -> ClosedSockets<T> {
        ClosedSockets(Mutex::new(Vec::new()))
    }
}

impl<T: Copy> ClosedSockets<T> {
    /// Adds a socket that no queue uses any more.
    pub fn add(&self, fd: Weak<OwnedFd>, owned: T) {
        let socket = ClosedSocket { fd, closed: None, owned };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(socket);
    }

    /// Calls `free` for each socket that the kernel has released. Returns true if the list became empty.
    pub fn release(&self, mut free: impl FnMut(T)) -> bool {
        let mut sockets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let was_empty = sockets.is_empty();
        sockets.retain_mut(|socket| {
            let is_open = socket.fd.strong_count() > 0;
            if is_open || socket.closed.get_or_insert_with(Instant::now).elapsed() < DELAY {
                return true;
            }
            free(socket.owned);
            false
        });
        !was_empty && sockets.is_empty()
    }
}
