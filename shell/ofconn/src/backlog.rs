//! The messages of one connection that wait between its sockets and its session, in both directions.
//!
//! It limits both sides: the sockets stop reading while too many requests wait for the main loop, and the main loop takes no further
//! requests of a peer that does not read its replies. A side that stops sets a flag, and the other side wakes it.
//!
//! **Threads**: both. Requests are counted once for each batch, under a lock that is held briefly. Bytes to be written are added for
//! each message without the lock, because adding bytes never ends a wait. Every change that may end a wait is made under the lock.

use openflow::session::Role;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes of requests that may wait for the main loop: enough for one of its turns.
const REQUESTS_MAX: usize = 256 << 10;

/// If more bytes of replies than this wait, no request of the peer is taken.
pub(crate) const OUTPUT_MAX: usize = 512 << 10;

/// The counts of one connection.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    waits: Mutex<Waits>,
    /// Bytes of messages on their way to the sockets, estimated.
    coming: AtomicUsize,
    /// Bytes that are encoded and not written.
    output: AtomicUsize,
}

#[derive(Debug, Default)]
struct Waits {
    /// Bytes of requests that the main loop has not taken.
    requests: usize,
    /// The sockets read nothing until the main loop has taken some of them.
    is_full: bool,
    /// The main loop waits until no more bytes than this are to be written.
    awaited: Option<usize>,
    /// The role of the peer, for snoopers.
    role: Role,
}

/// The side of the main loop.
impl Backlog {
    /// Records that requests were taken. Returns whether the sockets wait for that.
    pub(crate) fn taken(&self, memory: usize) -> bool {
        let mut waits = self.lock();
        waits.requests = waits.requests.saturating_sub(memory);
        let go_on = waits.is_full && waits.requests <= REQUESTS_MAX / 2;
        waits.is_full &= !go_on;
        go_on
    }

    /// Records a message for the sockets.
    pub(crate) fn ordered(&self, bytes: usize) {
        self.coming.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes to be written.
    pub(crate) fn output_len(&self) -> usize {
        self.coming.load(Ordering::Acquire) + self.output.load(Ordering::Relaxed)
    }

    /// Asks for a wake-up as soon as no more than `limit` bytes are to be written. Returns whether that is the case now.
    pub(crate) fn await_written(&self, limit: usize) -> bool {
        let mut waits = self.lock();
        let is_written = self.output_len() <= limit;
        waits.awaited = (!is_written).then(|| waits.awaited.map_or(limit, |other| other.max(limit)));
        is_written
    }

    /// Sets the role of the peer.
    pub(crate) fn set_role(&self, role: Role) {
        self.lock().role = role;
    }
}

/// The side of the sockets.
impl Backlog {
    /// Records requests for the main loop. If no more may be decoded, `taken` reports when some may.
    pub(crate) fn decoded(&self, memory: usize) {
        let mut waits = self.lock();
        waits.requests += memory;
        waits.is_full = waits.requests >= REQUESTS_MAX;
    }

    /// Bytes of requests that may be decoded now.
    pub(crate) fn left(&self) -> usize {
        let waits = self.lock();
        if waits.is_full { 0 } else { REQUESTS_MAX.saturating_sub(waits.requests) }
    }

    /// Records that messages of `bytes` have arrived, and how many bytes are to be written now. Returns whether the main loop
    /// waits for that.
    pub(crate) fn written(&self, bytes: usize, output: usize) -> bool {
        let mut waits = self.lock();
        // The encoded bytes are added before they are subtracted elsewhere, so that the sum is never too small.
        self.output.store(output, Ordering::Relaxed);
        let _ =
            self.coming.fetch_update(Ordering::Release, Ordering::Relaxed, |c| Some(c.saturating_sub(bytes)));
        let is_awaited = waits.awaited.is_some_and(|limit| self.output_len() <= limit);
        if is_awaited {
            waits.awaited = None;
        }
        is_awaited
    }

    /// The role of the peer.
    pub(crate) fn role(&self) -> Role {
        self.lock().role
    }
}

impl Backlog {
    fn lock(&self) -> MutexGuard<'_, Waits> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sockets_stop_until_half_is_taken() {
        let backlog = Backlog::default();
        let memory = REQUESTS_MAX / 8;
        let decoded = (0..100).take_while(|_| backlog.left() > 0).map(|_| backlog.decoded(memory)).count();
        assert_eq!(decoded, 8);
        assert_eq!([(); 5].map(|()| backlog.taken(memory)), [false, false, false, true, false]);
        assert_eq!(backlog.left(), 5 * memory);
        assert!(!backlog.taken(memory));
    }

    #[test]
    fn what_is_on_its_way_is_unwritten() {
        let backlog = Backlog::default();
        backlog.ordered(100);
        assert!(!backlog.await_written(10));
        assert!(!backlog.written(100, 90));
        assert_eq!(backlog.output_len(), 90);
        assert!(backlog.written(0, 10));
        assert!(!backlog.written(0, 0));
        assert!(backlog.await_written(0));
    }
}
