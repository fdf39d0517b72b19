//! The atomics and locks of this crate: from the standard library, or from the model checker loom, which tries every order that the memory
//! model allows (`--cfg loom`; `tests/model.rs`).

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

/// `n` atomics with value zero. `None`: out of memory.
#[cfg(not(loom))]
pub(crate) fn zeros(n: usize) -> Option<Box<[AtomicU32]>> {
    zerocopy::FromZeros::new_box_zeroed_with_elems(n).ok()
}

/// As above, with loom's atomics.
#[cfg(loom)]
pub(crate) fn zeros(n: usize) -> Option<Box<[AtomicU32]>> {
    Some((0..n).map(|_| AtomicU32::new(0)).collect())
}
