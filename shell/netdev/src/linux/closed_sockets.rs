//! Closed sockets whose buffers may not be reused yet.
//!
//! A socket that shares a umem owns the buffers on its rings. They are free again when the kernel has released the
//! socket. That needs two things: all its descriptors are closed (a worker may hold one for some time), and no packet
//! of it is in flight. In copy mode the kernel waits for packets in flight when it closes a socket. The delay here is
//! for descriptors: a child process that is being started has a copy until it executes its program.

use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

/// How long after the last close the buffers are free.
const DELAY: Duration = Duration::from_millis(100);

struct ClosedSocket<T> {
    /// The socket stays open while another owner has the descriptor.
    fd: Weak<OwnedFd>,
    /// When it was found closed.
    closed: Option<Instant>,
    /// What is to be freed.
    owned: T,
}

/// Closed sockets, each with what is to be freed.
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

    /// Calls `free` for each socket that the kernel has released. Returns whether the last one was freed.
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
