//! Held buffers: rx buffers that are returned to the sending guest immediately before its packets are transmitted.
//!
//! A guest with an inflight area survives a killed switch: the next switch receives all packets again whose buffers were not returned. If
//! buffers were returned when the packets are received, a killed switch would lose the packets of a burst. If they were returned after the
//! packets were transmitted, the next switch could transmit these packets twice. So [`release`] returns them immediately before a receiver
//! can see the first packet: for a guest's ring before its index is written, for other devices before the device gets the packets. If the
//! switch is killed between return and transmission, packets are lost, but none is transmitted twice.
//!
//! Each worker has its own list. Without held buffers, `release` is one load and one comparison.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// An rx queue whose buffers may be held.
pub trait HeldBuffers {
    /// Returns the held buffers to the guest.
    fn release(&self);
}

thread_local! {
    static HOLDS_ANY: Cell<bool> = const { Cell::new(false) };
    static QUEUES: RefCell<Vec<Arc<dyn HeldBuffers>>> = const { RefCell::new(Vec::new()) };
}

/// Holds the buffers of a queue: the next [`release`] of this thread returns them.
pub fn hold(queue: Arc<dyn HeldBuffers>) {
    HOLDS_ANY.set(true);
    QUEUES.with_borrow_mut(|list| list.push(queue));
}

/// Returns whether this thread holds buffers.
#[inline]
#[must_use]
pub fn holds_any() -> bool {
    HOLDS_ANY.get()
}

/// Returns all buffers that this thread holds to their guests.
#[inline]
pub fn release() {
    if holds_any() {
        release_all();
    }
}

#[cold]
fn release_all() {
    HOLDS_ANY.set(false);
    for queue in QUEUES.with_borrow_mut(std::mem::take) {
        queue.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    impl HeldBuffers for AtomicU32 {
        fn release(&self) {
            self.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn each_is_released_once_by_its_thread() {
        let queues = [(); 2].map(|()| Arc::new(AtomicU32::new(0)));
        release();
        queues.iter().for_each(|queue| hold(Arc::clone(queue) as Arc<dyn HeldBuffers>));
        assert!(holds_any() && !std::thread::spawn(holds_any).join().unwrap());
        release();
        release();
        assert!(!holds_any() && queues.iter().all(|queue| queue.load(Ordering::Relaxed) == 1));
    }
}
