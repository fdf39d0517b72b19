//! Functions that take a lock. Data behind a lock stays usable after a panic of another thread.

use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

/// Waits for the lock.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes the lock, unless another thread holds it during all tries.
pub(crate) fn try_lock_spinning<T>(mutex: &Mutex<T>, tries: usize) -> Option<MutexGuard<'_, T>> {
    for _ in 0..tries {
        match mutex.try_lock() {
            Ok(guard) => return Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => std::hint::spin_loop(),
        }
    }
    None
}
