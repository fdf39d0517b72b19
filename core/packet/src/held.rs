//! Buffers that a sender gets back immediately before its packets are handed over.
//!
//! A guest with an inflight area survives a switch that is killed: the next switch receives all packets again whose buffers the guest
//! does not have back. Buffers that go back when the packets are received lose the packets of a burst; buffers that go back after the
//! packets were sent let the next switch send them twice. So they go back by [`release`], which whatever hands packets to a receiver
//! calls before the first of them can be seen there: a guest's ring before its index is written, everything else before the device gets
//! the packets. A kill between both loses packets, and none comes twice.
//!
//! Each worker has its own list. Without such guests, `release` is one load and one comparison.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// A queue that holds buffers back.
pub trait Held {
    /// Gives them back.
    fn release(&self);
}

thread_local! {
    static ANY: Cell<bool> = const { Cell::new(false) };
    static HELD: RefCell<Vec<Arc<dyn Held>>> = const { RefCell::new(Vec::new()) };
}

/// The next [`release`] of this thread releases `held` too.
pub fn hold(held: Arc<dyn Held>) {
    ANY.set(true);
    HELD.with_borrow_mut(|list| list.push(held));
}

/// Whether this thread holds buffers.
#[inline]
#[must_use]
pub fn any() -> bool {
    ANY.get()
}

/// Releases all buffers that this thread holds.
#[inline]
pub fn release() {
    if any() {
        release_all();
    }
}

#[cold]
fn release_all() {
    ANY.set(false);
    for held in HELD.with_borrow_mut(std::mem::take) {
        held.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    impl Held for AtomicU32 {
        fn release(&self) {
            self.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn each_is_released_once_by_its_thread() {
        let queues = [(); 2].map(|()| Arc::new(AtomicU32::new(0)));
        release();
        queues.iter().for_each(|queue| hold(Arc::clone(queue) as Arc<dyn Held>));
        assert!(any() && !std::thread::spawn(any).join().unwrap());
        release();
        release();
        assert!(!any() && queues.iter().all(|queue| queue.load(Ordering::Relaxed) == 1));
    }
}
