//! What of one connection waits between its sockets and its session, in both directions.
//!
//! Each side limits itself by it: the sockets read no more requests than the main loop takes, and the main loop answers no more
//! requests of a peer that does not read. A side that stops says so, and the other one wakes it.
//!
//! **Threads**: both, one short critical section for each message.

use openflow::session::Role;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes of requests that may wait for the main loop: enough for one of its turns.
const REQUESTS_MAX: usize = 256 << 10;

/// The counts of one connection.
#[derive(Debug, Default)]
pub(crate) struct Backlog(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    /// Bytes of requests that the main loop has not taken.
    requests: usize,
    /// The sockets do not go on before it has taken some.
    is_full: bool,
    /// Bytes of messages on their way to the sockets, estimated.
    coming: usize,
    /// Bytes that are encoded and not written.
    output: usize,
    /// The main loop waits until no more bytes than this are to be written.
    awaited: Option<usize>,
    /// The role of the peer, for snoopers.
    role: Role,
}

impl Counts {
    fn unwritten(&self) -> usize {
        self.coming + self.output
    }
}

/// The side of the main loop.
impl Backlog {
    /// Records that a request was taken. Returns whether the sockets wait for that.
    pub(crate) fn taken(&self, memory: usize) -> bool {
        let mut counts = self.lock();
        counts.requests = counts.requests.saturating_sub(memory);
        let go_on = counts.is_full && counts.requests <= REQUESTS_MAX / 2;
        counts.is_full &= !go_on;
        go_on
    }

    /// Records a message for the sockets.
    pub(crate) fn ordered(&self, bytes: usize) {
        self.lock().coming += bytes;
    }

    /// Bytes to be written.
    pub(crate) fn output_len(&self) -> usize {
        self.lock().unwritten()
    }

    /// Asks for a wake-up as soon as no more than `limit` bytes are to be written. Returns whether that is the case now.
    pub(crate) fn await_written(&self, limit: usize) -> bool {
        let mut counts = self.lock();
        let is_written = counts.unwritten() <= limit;
        counts.awaited = (!is_written).then(|| counts.awaited.map_or(limit, |other| other.max(limit)));
        is_written
    }

    /// Sets the role of the peer.
    pub(crate) fn set_role(&self, role: Role) {
        self.lock().role = role;
    }
}

/// The side of the sockets.
impl Backlog {
    /// Records a request for the main loop.
    pub(crate) fn decoded(&self, memory: usize) {
        self.lock().requests += memory;
    }

    /// Whether no more requests may be decoded; then `taken` reports when some may.
    pub(crate) fn is_full(&self) -> bool {
        let mut counts = self.lock();
        counts.is_full = counts.requests >= REQUESTS_MAX;
        counts.is_full
    }

    /// Records that messages of `bytes` have arrived, and how many bytes are to be written now. Returns whether the main loop
    /// waits for that.
    pub(crate) fn written(&self, bytes: usize, output: usize) -> bool {
        let mut counts = self.lock();
        counts.coming = counts.coming.saturating_sub(bytes);
        counts.output = output;
        let is_awaited = counts.awaited.is_some_and(|limit| counts.unwritten() <= limit);
        if is_awaited {
            counts.awaited = None;
        }
        is_awaited
    }

    /// The role of the peer.
    pub(crate) fn role(&self) -> Role {
        self.lock().role
    }
}

impl Backlog {
    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sockets_stop_until_half_is_taken() {
        let backlog = Backlog::default();
        let memory = REQUESTS_MAX / 8;
        let decoded = (0..100).take_while(|_| !backlog.is_full()).map(|_| backlog.decoded(memory)).count();
        assert_eq!(decoded, 8);
        assert_eq!([(); 5].map(|()| backlog.taken(memory)), [false, false, false, true, false]);
        assert!(!backlog.is_full());
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
