//! Byte counts of the messages that wait between the socket and the session of one connection, in both directions.
//!
//! The counts limit both directions: the sockets stop decoding while too many requests wait for the main loop, and the main loop executes
//! no further requests of a peer that does not read its replies. A thread that stops sets a flag, and the other thread wakes it.
//!
//! **Threads**: the main loop and the thread of the sockets. Requests are counted once for each batch, under a lock that is held briefly.
//! Bytes to be written are added for each message without the lock, because adding bytes never ends a wait. Every change that may end a
//! wait is made under the lock.

use openflow::session::Role;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes of requests that may wait for the main loop: enough for one turn of the main loop.
const REQUEST_BYTES_MAX: usize = 256 << 10;

/// While this many bytes or more of output wait, no request of the peer is executed.
pub(crate) const OUTPUT_MAX: usize = 512 << 10;

/// The counts of one connection.
#[derive(Debug, Default)]
pub(crate) struct WaitingBytes {
    waits: Mutex<WaitState>,
    /// Estimated bytes of messages that the session has issued and the sockets have not encoded.
    pending: AtomicUsize,
    /// Bytes that are encoded and not written to the socket.
    output: AtomicUsize,
}

#[derive(Debug, Default)]
struct WaitState {
    /// Bytes of requests that the main loop has not taken.
    requests: usize,
    /// The sockets decode no requests until at most half of [`REQUEST_BYTES_MAX`] wait.
    is_full: bool,
    /// The main loop waits until at most this many bytes are to be written.
    awaited: Option<usize>,
    /// The role of the peer. A new client of the snoop socket gets the messages of the connection with the highest role.
    role: Role,
}

/// Methods of the main loop.
impl WaitingBytes {
    /// Records that the main loop has taken requests. Returns whether the sockets wait for that and have to be woken.
    pub(crate) fn requests_taken(&self, memory: usize) -> bool {
        let mut waits = self.lock();
        waits.requests = waits.requests.saturating_sub(memory);
        let go_on = waits.is_full && waits.requests <= REQUEST_BYTES_MAX / 2;
        waits.is_full &= !go_on;
        go_on
    }

    /// Records a message that was issued to the sockets; `bytes` is an estimate.
    pub(crate) fn add_pending_output(&self, bytes: usize) {
        self.pending.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes to be written.
    pub(crate) fn output_len(&self) -> usize {
        self.pending.load(Ordering::Acquire) + self.output.load(Ordering::Relaxed)
    }

    /// Requests a wake-up as soon as at most `limit` bytes are to be written. Returns true if that is the case already.
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

/// Methods of the sockets.
impl WaitingBytes {
    /// Records requests for the main loop. If too many requests wait after this call, `requests_taken` tells the main loop when to wake the sockets.
    pub(crate) fn requests_decoded(&self, memory: usize) {
        let mut waits = self.lock();
        waits.requests += memory;
        waits.is_full = waits.requests >= REQUEST_BYTES_MAX;
    }

    /// Bytes of requests that may be decoded now.
    pub(crate) fn request_space(&self) -> usize {
        let waits = self.lock();
        if waits.is_full { 0 } else { REQUEST_BYTES_MAX.saturating_sub(waits.requests) }
    }

    /// Records that issued messages of `bytes` (estimated) were encoded, and that `output` bytes are to be written now. Returns whether
    /// the main loop waits for that and has to be woken.
    pub(crate) fn update_output(&self, bytes: usize, output: usize) -> bool {
        let mut waits = self.lock();
        // The output grows before the pending bytes shrink, so that a concurrent `output_len` never returns too little.
        self.output.store(output, Ordering::Relaxed);
        let _ = self
            .pending
            .fetch_update(Ordering::Release, Ordering::Relaxed, |c| Some(c.saturating_sub(bytes)));
        let must_wake_main = waits.awaited.is_some_and(|limit| self.output_len() <= limit);
        if must_wake_main {
            waits.awaited = None;
        }
        must_wake_main
    }

    /// The role of the peer.
    pub(crate) fn role(&self) -> Role {
        self.lock().role
    }
}

impl WaitingBytes {
    fn lock(&self) -> MutexGuard<'_, WaitState> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sockets_stop_until_half_is_taken() {
        let waiting_bytes = WaitingBytes::default();
        let memory = REQUEST_BYTES_MAX / 8;
        let decoded = (0..100)
            .take_while(|_| waiting_bytes.request_space() > 0)
            .map(|_| waiting_bytes.requests_decoded(memory))
            .count();
        assert_eq!(decoded, 8);
        assert_eq!(
            [(); 5].map(|()| waiting_bytes.requests_taken(memory)),
            [false, false, false, true, false]
        );
        assert_eq!(waiting_bytes.request_space(), 5 * memory);
        assert!(!waiting_bytes.requests_taken(memory));
    }

    #[test]
    fn what_is_on_its_way_is_unwritten() {
        let waiting_bytes = WaitingBytes::default();
        waiting_bytes.add_pending_output(100);
        assert!(!waiting_bytes.await_written(10));
        assert!(!waiting_bytes.update_output(100, 90));
        assert_eq!(waiting_bytes.output_len(), 90);
        assert!(waiting_bytes.update_output(0, 10));
        assert!(!waiting_bytes.update_output(0, 0));
        assert!(waiting_bytes.await_written(0));
    }
}
