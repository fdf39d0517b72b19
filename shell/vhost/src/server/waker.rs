//! Wakes the serving thread.

use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::OnceLock;

static WAKER: OnceLock<OwnedFd> = OnceLock::new();

/// The eventfd for which the serving thread waits; created at the first call.
pub(super) fn waker() -> io::Result<&'static OwnedFd> {
    if let Some(waker) = WAKER.get() {
        return Ok(waker);
    }
    let waker = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    Ok(WAKER.get_or_init(|| waker))
}

/// Wakes the serving thread, because a session may wait for a change. Does not block.
pub fn wake() {
    let Some(waker) = WAKER.get() else { return };
    // Fails if the counter is full; then the thread is about to wake up anyway.
    let _ = rustix::io::write(waker, &1u64.to_ne_bytes());
}
