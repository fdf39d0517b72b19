//! Closed sockets whose buffers may not be reused yet.
//!
//! A socket that shares a umem owns the buffers on its rings. They are free again when the kernel has released the
//! socket: all descriptors of it are closed (a worker may hold one for some time), and packets in flight are through.
//! The kernel waits for those itself when it closes a socket in copy mode; the delay here covers a child process that is
//! being started and has a copy of the descriptor until it executes its program.

use super::umem::{End, Umem};
use rxpool::Place;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Time after the last close.
const DELAY: Duration = Duration::from_millis(100);

struct Grave {
    /// Whoever else has the descriptor keeps the socket open.
    fd: Weak<OwnedFd>,
    /// When it was found closed.
    closed: Option<Instant>,
    ends: [End; 2],
}

/// Closed sockets of a umem.
#[derive(Default)]
pub struct Graves(Mutex<Vec<Grave>>);

impl Graves {
    /// Adds a socket that no queue uses any more, and closes its places.
    pub fn add(&self, umem: &'static Umem, fd: Weak<OwnedFd>, ends: [End; 2], places: [Place; 2]) {
        places.iter().for_each(|place| umem.pool.close(*place));
        let grave = Grave { fd, closed: None, ends };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(grave);
    }

    /// Frees the buffers of sockets that the kernel has released. The main thread calls this when it opens or closes
    /// ports and when it reads counters.
    pub fn visit(&self, umem: &'static Umem) {
        let mut graves = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let was_empty = graves.is_empty();
        graves.retain_mut(|grave| {
            if grave.fd.strong_count() > 0 {
                return true;
            }
            if grave.closed.get_or_insert_with(Instant::now).elapsed() < DELAY {
                return true;
            }
            umem.bury(grave.ends);
            false
        });
        if !was_empty && graves.is_empty() && umem.pool.places().0 == 0 {
            umem.give_back();
        }
    }
}
