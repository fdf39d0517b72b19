//! Epochs: readers announce that they are reading.
//!
//! The rule: a reader stores the global epoch in its slot *before* it loads any pointer or state, with a sequentially consistent fence
//! between the store and the loads. The publisher unlinks data, executes a fence, then advances the epoch. Data that was unlinked at epoch
//! `e` may be freed when every slot is idle or contains an epoch greater than `e`. Either the reader's fence precedes the publisher's fence
//! in the single order of fences, and the publisher sees the announcement; or it follows, and the reader sees that the data is unlinked.

use crate::CachePadded;
use crate::atomic::{Arc, AtomicU64, Mutex, Ordering, fence};
use std::sync::PoisonError;

/// Value of a slot whose reader is not reading.
const IDLE: u64 = u64::MAX;

/// All readers of one arena.
#[derive(Debug)]
pub(crate) struct Epochs {
    global: AtomicU64,
    slots: Mutex<Vec<Arc<Slot>>>,
}

/// The announcement of one reader.
#[derive(Debug)]
pub(crate) struct Slot(CachePadded<AtomicU64>);

impl Epochs {
    pub(crate) fn new() -> Epochs {
        Epochs { global: AtomicU64::new(0), slots: Mutex::new(Vec::new()) }
    }

    /// A slot for a new reader.
    pub(crate) fn register(&self) -> Arc<Slot> {
        let slot = Arc::new(Slot(CachePadded::new(AtomicU64::new(IDLE))));
        self.slots.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&slot));
        slot
    }

    /// Called when the reader begins to read.
    #[inline]
    pub(crate) fn enter(&self, slot: &Slot) {
        // Release: a publisher that sees this epoch, and not the `IDLE` that was stored before it, also sees that all earlier reads have
        // ended.
        slot.0.store(self.global.load(Ordering::Relaxed), Ordering::Release);
        fence(Ordering::SeqCst);
    }

    /// Called when the reader holds no reference any more.
    #[inline]
    pub(crate) fn leave(&self, slot: &Slot) {
        slot.0.store(IDLE, Ordering::Release);
    }

    /// Called after data was unlinked. Returns the epoch in which it was unlinked: readers that entered in this epoch or earlier may still
    /// see the data.
    pub(crate) fn retire(&self) -> u64 {
        fence(Ordering::SeqCst);
        self.global.fetch_add(1, Ordering::SeqCst)
    }

    /// Returns an epoch: data that was retired in an earlier one may be freed.
    pub(crate) fn safe_before(&self) -> u64 {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        // A slot that only this list refers to has no reader any more. Dropping its `Arc` orders the reader's accesses before the following
        // code.
        slots.retain(|s| Arc::strong_count(s) > 1);
        fence(Ordering::SeqCst);
        let now = self.global.load(Ordering::SeqCst);
        slots.iter().map(|s| s.0.load(Ordering::Acquire)).filter(|&e| e != IDLE).min().unwrap_or(now).min(now)
    }
}
