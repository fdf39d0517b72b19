//! Memory for new connections, allocated in advance by the main loop.
//!
//! A worker that uses a new page of memory waits for the kernel to find and clear it: 20 µs for a chunk of records, much more if the machine
//! has little free memory. So the main loop allocates chunks that are not used yet, and writes to each of their pages. When a worker has
//! used half of them, it wakes the main loop, which allocates more. A worker that is faster than the main loop allocates its chunks itself.
//! Records of connections that ended are used again, so a table that does not grow causes none of this work.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// The request of a worker for more memory in advance.
#[derive(Default)]
pub(crate) struct MemoryRequest {
    is_requested: AtomicBool,
    wake: OnceLock<Arc<dyn Fn() + Send + Sync>>,
}

impl fmt::Debug for MemoryRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MemoryRequest").field(&self.is_requested).finish()
    }
}

impl MemoryRequest {
    /// Sets the function that wakes the main loop. Only the first call has an effect.
    pub(crate) fn set_wake(&self, wake: Arc<dyn Fn() + Send + Sync>) {
        _ = self.wake.set(wake);
    }

    /// Requests memory and wakes the main loop.
    #[cold]
    pub(crate) fn send(&self) {
        self.set(true);
        if let Some(wake) = self.wake.get() {
            wake();
        }
    }

    /// Sets whether memory is requested, without waking the main loop.
    pub(crate) fn set(&self, is_requested: bool) {
        self.is_requested.store(is_requested, Ordering::Relaxed);
    }

    pub(crate) fn is_set(&self) -> bool {
        self.is_requested.load(Ordering::Relaxed)
    }
}
