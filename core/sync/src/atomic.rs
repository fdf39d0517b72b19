//! The atomics and locks of this crate: those of the standard library, or those of the model checker, which tries
//! every order that the memory model allows (`--cfg loom`; tests/model.rs).

#[cfg(not(loom))]
pub(crate) use std::sync::{
    Arc, Mutex, MutexGuard, TryLockError,
    atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence},
};

#[cfg(loom)]
pub(crate) use loom::sync::{
    Arc, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence},
};
#[cfg(loom)]
pub(crate) use std::sync::TryLockError;

/// `n` zeros; `None` if memory is missing.
#[cfg(not(loom))]
pub(crate) fn zeros(n: usize) -> Option<Box<[AtomicU32]>> {
    zerocopy::FromZeros::new_box_zeroed_with_elems(n).ok()
}

/// The same with the model checker's atomics.
#[cfg(loom)]
pub(crate) fn zeros(n: usize) -> Option<Box<[AtomicU32]>> {
    Some((0..n).map(|_| AtomicU32::new(0)).collect())
}
