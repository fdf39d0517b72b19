//! Changes of learning tables and neighbours: translations read these tables directly, not from the snapshot.
//!
//! **Threads**: any thread reports changes; the main loop takes them and hands them to the revalidator.

use crate::changes::Changes;
use runtime::Waker;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Changes that the main loop has not taken, and the number of the last one.
#[derive(Default)]
struct Waiting {
    changes: Changes,
    noted: u64,
}

/// The changes that were reported and not yet taken.
pub struct LiveChanges {
    waiting: Mutex<Waiting>,
    any: AtomicBool,
    /// How many changes were reported, how many of them the main loop has taken, and how many the revalidator has been given.
    noted: AtomicU64,
    taken: AtomicU64,
    handed: AtomicU64,
    waker: Waker,
}

impl LiveChanges {
    /// No changes yet; `waker` is the main loop's.
    pub fn new(waker: Waker) -> LiveChanges {
        LiveChanges {
            waiting: Mutex::default(),
            any: AtomicBool::new(false),
            noted: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            handed: AtomicU64::new(0),
            waker,
        }
    }

    /// Reports a change of a learning table. To be called while the table's lock is held, so no thread can see the
    /// change before it is reported.
    pub fn note(&self, changes: Changes) {
        if changes.is_empty() {
            return;
        }
        let mut live = self.waiting();
        live.changes.append(changes);
        live.noted += 1;
        self.noted.store(live.noted, Ordering::Release);
        drop(live);
        if !self.any.swap(true, Ordering::AcqRel) {
            self.waker.wake();
        }
    }

    /// The changes since the last call. Once the revalidator has them, [`LiveChanges::handed_over`] must be called.
    pub fn take(&self) -> Option<Changes> {
        self.any.swap(false, Ordering::AcqRel).then(|| {
            let mut live = self.waiting();
            self.taken.store(live.noted, Ordering::Release);
            std::mem::take(&mut live.changes)
        })
    }

    /// The revalidator has been given all changes that were taken.
    pub fn handed_over(&self) {
        self.handed.store(self.taken.load(Ordering::Acquire), Ordering::Release);
    }

    /// Whether the revalidator lacks a change.
    pub fn is_ahead(&self) -> bool {
        self.noted.load(Ordering::Acquire) != self.handed.load(Ordering::Acquire)
    }

    /// Stays usable after a panic of another thread: each operation is complete.
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
