//! A lock for threads that go on without it if another one holds it. It is released by a plain store.
//!
//! Releasing a [`std::sync::Mutex`] is an atomic exchange, because a thread may wait for it. The processor does that only
//! when all writes before it have reached the cache. A worker that has just filled buffers of another core would wait
//! hundreds of cycles for them; a plain store waits behind them by itself.

use crate::atomic::{AtomicBool, Ordering};
use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};

/// A value that one thread at a time has.
#[derive(Debug, Default)]
pub struct TryLock<T> {
    held: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the value is accessed through a `TryGuard` only, of which one exists at a time; so it moves between threads, and
// is never used by two at once.
unsafe impl<T: Send> Sync for TryLock<T> {}

/// Access to the value.
#[derive(Debug)]
pub struct TryGuard<'l, T>(&'l TryLock<T>);

impl<T> TryLock<T> {
    /// A lock that is free.
    pub fn new(value: T) -> TryLock<T> {
        TryLock { held: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// The value; `None`: another thread has it.
    #[inline]
    pub fn try_lock(&self) -> Option<TryGuard<'_, T>> {
        // The load first: a failed exchange would take the cache line from the thread that has the lock.
        let is_free = !self.held.load(Ordering::Relaxed) && !self.held.swap(true, Ordering::Acquire);
        is_free.then(|| TryGuard(self))
    }
}

impl<T> Deref for TryGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this guard is the only one, and what it lends lives no longer than it is borrowed.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for TryGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above; the guard is borrowed exclusively.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for TryGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.0.held.store(false, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time_has_the_value() {
        let lock = TryLock::new(1);
        let mut guard = lock.try_lock().unwrap();
        assert!(lock.try_lock().is_none());
        *guard += 1;
        drop(guard);
        assert_eq!(*lock.try_lock().unwrap(), 2);
    }
}
