//! Closed sockets whose buffers may not be reused yet.
//!
//! A socket that shares a umem owns the buffers on its rings. They are free again when the kernel has released the
//! socket: all descriptors of it are closed (a worker may hold one for some time), and packets in flight are through.
//! The kernel waits for those itself when it closes a socket in copy mode; the delay here covers a child process that is
//! being started and has a copy of the descriptor until it executes its program.

use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Time after the last close.
const DELAY: Duration = Duration::from_millis(100);

struct Grave<T> {
    /// Whoever else has the descriptor keeps the socket open.
    fd: Weak<OwnedFd>,
    /// When it was found closed.
    closed: Option<Instant>,
    what: T,
}

/// Closed sockets, each with what is to be freed.
pub struct Graves<T>(Mutex<Vec<Grave<T>>>);

impl<T> Default for Graves<T> {
    fn default() -> Graves<T> {
        Graves(Mutex::new(Vec::new()))
    }
}

impl<T: Copy> Graves<T> {
    /// Adds a socket that no queue uses any more.
    pub fn add(&self, fd: Weak<OwnedFd>, what: T) {
        let grave = Grave { fd, closed: None, what };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(grave);
    }

    /// Calls `free` for each socket that the kernel has released. Returns whether the last one was freed.
    pub fn visit(&self, mut free: impl FnMut(T)) -> bool {
        let mut graves = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let was_empty = graves.is_empty();
        graves.retain_mut(|grave| {
            let is_open = grave.fd.strong_count() > 0;
            if is_open || grave.closed.get_or_insert_with(Instant::now).elapsed() < DELAY {
                return true;
            }
            free(grave.what);
            false
        });
        !was_empty && graves.is_empty()
    }
}
