//! Changes of learning tables and neighbours: translations read these tables directly, not from the snapshot.
//!
//! **Threads**: any thread reports changes; the main thread takes them and passes them to the revalidator.

use crate::changes::Changes;
use runtime::Waker;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Changes that the main thread has not taken yet.
#[derive(Default)]
struct PendingChanges {
    changes: Changes,
    /// How many reports there have been.
    noted: u64,
}

/// The changes that were reported and not yet taken.
pub struct LiveChanges {
    pending: Mutex<PendingChanges>,
    /// There are changes that the main thread has not taken; read without the lock.
    any: AtomicBool,
    /// How many reports there have been.
    noted: AtomicU64,
    /// How many of the reports the main thread has taken.
    taken: AtomicU64,
    /// How many of the reports the revalidator has got.
    handed_over: AtomicU64,
    waker: Waker,
}

impl LiveChanges {
    /// No changes. `waker` wakes the main thread.
    pub fn new(waker: Waker) -> LiveChanges {
        LiveChanges {
            pending: Mutex::default(),
            any: AtomicBool::new(false),
            noted: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            handed_over: AtomicU64::new(0),
            waker,
        }
    }

    /// Reports changes of a learning table or of neighbours. To be called while the table is locked, so that no thread can see a change
    /// before it is reported.
    pub fn note(&self, changes: Changes) {
        if changes.is_empty() {
            return;
        }
        let mut pending = self.pending();
        pending.changes.append(changes);
        pending.noted += 1;
        self.noted.store(pending.noted, Ordering::Release);
        drop(pending);
        if !self.any.swap(true, Ordering::AcqRel) {
            self.waker.wake();
        }
    }

    /// Takes the changes since the last call; `None` if there are none. When the revalidator has got them,
    /// [`LiveChanges::handed_over`] must be called.
    pub fn take_changes(&self) -> Option<Changes> {
        self.any.swap(false, Ordering::AcqRel).then(|| {
            let mut pending = self.pending();
            self.taken.store(pending.noted, Ordering::Release);
            std::mem::take(&mut pending.changes)
        })
    }

    /// Records that the revalidator has got all changes that were taken.
    pub fn handed_over(&self) {
        self.handed_over.store(self.taken.load(Ordering::Acquire), Ordering::Release);
    }

    /// Whether there is a change that the revalidator has not got yet.
    pub fn has_undelivered_changes(&self) -> bool {
        self.noted.load(Ordering::Acquire) != self.handed_over.load(Ordering::Acquire)
    }

    /// Locks the changes. They stay usable after a panic of another thread, because no panic can leave an operation incomplete.
    fn pending(&self) -> MutexGuard<'_, PendingChanges> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
