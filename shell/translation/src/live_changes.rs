//! Changes of the learning tables, the one thing that translations read past the snapshot.
//!
//! **Threads**: any notes; the main loop takes them and hands them to the revalidator.

use crate::changes::Changes;
use runtime::Waker;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What the main loop has not taken, and the number of the last change.
#[derive(Default)]
struct Waiting {
    changes: Changes,
    noted: u64,
}

/// See the module.
pub struct LiveChanges {
    waiting: Mutex<Waiting>,
    any: AtomicBool,
    /// How many changes there have been, and how many of these the revalidator has been given.
    noted: AtomicU64,
    handed: AtomicU64,
    waker: Waker,
}

impl LiveChanges {
    /// None yet; `waker` is the main loop's.
    pub fn new(waker: Waker) -> LiveChanges {
        LiveChanges {
            waiting: Mutex::default(),
            any: AtomicBool::new(false),
            noted: AtomicU64::new(0),
            handed: AtomicU64::new(0),
            waker,
        }
    }

    /// A learning table has changed. To be called while its lock is still held: nobody can see the change before it is noted.
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

    /// The changes of learning tables since the last call, and how many there have been in all: [`LiveChanges::hand_over`] is to
    /// be told once the revalidator has them.
    pub fn take(&self) -> Option<(Changes, u64)> {
        self.any.swap(false, Ordering::AcqRel).then(|| {
            let mut live = self.waiting();
            (std::mem::take(&mut live.changes), live.noted)
        })
    }

    /// The revalidator has been given so many changes of learning tables.
    pub fn hand_over(&self, noted: u64) {
        self.handed.store(noted, Ordering::Release);
    }

    /// Some change of a learning table has not got to the revalidator.
    pub fn is_ahead(&self) -> bool {
        self.noted.load(Ordering::Acquire) != self.handed.load(Ordering::Acquire)
    }

    /// A panic of another holder leaves it usable: each operation is complete in itself.
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
