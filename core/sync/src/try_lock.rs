//! A lock for threads that do other work if another thread holds it. It is released by a plain store.
//!
//! Releasing a [`std::sync::Mutex`] is an atomic exchange, because another thread may wait for the mutex. The processor executes the
//! exchange only when all earlier writes have reached the cache. A worker that has just written to buffers that are in another core's cache
//! would wait hundreds of cycles. A plain store is queued behind these writes, and the worker continues.

use crate::atomic::{AtomicBool, Ordering};
use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};

/// A value that one thread at a time can access.
#[derive(Debug, Default)]
pub struct TryLock<T> {
    held: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the value is accessed only through a `TryGuard`, and at most one `TryGuard` exists at a time (`held`). So the value may be used
// by several threads one after another (`T: Send`), and never by two at once.
unsafe impl<T: Send> Sync for TryLock<T> {}

/// Access to the value of a [`TryLock`]; dropping the guard releases the lock.
#[derive(Debug)]
pub struct TryGuard<'l, T>(&'l TryLock<T>);

impl<T> TryLock<T> {
    /// Makes a lock that no thread holds.
    pub fn new(value: T) -> TryLock<T> {
        TryLock { held: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// Locks the value. `None`: another thread holds the lock.
    #[inline]
    pub fn try_lock(&self) -> Option<TryGuard<'_, T>> {
        // The load comes first, because a failed exchange would move the cache line away from the core that holds the lock.
        let is_free = !self.held.load(Ordering::Relaxed) && !self.held.swap(true, Ordering::Acquire);
        is_free.then(|| TryGuard(self))
    }
}

impl<T> Deref for TryGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: this guard is the only one, so no `&mut T` exists elsewhere, and the returned reference cannot outlive the borrow of the
        // guard.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for TryGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this guard is the only one and is borrowed exclusively, so no other reference to the value exists.
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
