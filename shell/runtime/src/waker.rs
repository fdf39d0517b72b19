//! Wakes an event loop from another thread.

use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Wakes the event loop of another thread; cheap to clone, never blocks.
#[derive(Clone, Debug)]
pub struct Waker(pub(crate) Arc<OwnedFd>);

impl Waker {
    /// Makes the loop's present or next `block` return.
    pub fn wake(&self) {
        // The only possible failure is a counter at its limit; then a wake-up is pending anyway.
        let _ = rustix::io::write(&*self.0, &1u64.to_ne_bytes());
    }
}
