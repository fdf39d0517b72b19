//! Epochs, by which readers announce that they are reading.
//!
//! The rule: a reader stores the global epoch in its slot *before* it loads any pointer or state, with a sequentially
//! consistent fence between. The publisher unlinks, fences, then advances the epoch; what it unlinked at epoch `e`
//! may be freed when every slot is idle or contains an epoch greater than `e`. Either the reader's announcement
//! precedes the publisher's fence in the single order of fences, and the publisher sees it; or it follows, and the
//! reader sees the unlinking.

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

/// One reader's announcement, on a cache line of its own.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Slot(AtomicU64);

impl Epochs {
    pub(crate) fn new() -> Epochs {
        Epochs { global: AtomicU64::new(0), slots: Mutex::new(Vec::new()) }
    }

    /// A slot for a new reader.
    pub(crate) fn register(&self) -> Arc<Slot> {
        let slot = Arc::new(Slot(AtomicU64::new(IDLE)));
        self.slots.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&slot));
        slot
    }

    /// The reader begins to read.
    #[inline]
    pub(crate) fn enter(&self, slot: &Slot) {
        // Release: a publisher that sees this epoch, and not the IDLE before it, also sees the end of all earlier
        // reads.
        slot.0.store(self.global.load(Ordering::Relaxed), Ordering::Release);
        fence(Ordering::SeqCst);
    }

    /// The reader holds no reference any more.
    #[inline]
    pub(crate) fn leave(&self, slot: &Slot) {
        slot.0.store(IDLE, Ordering::Release);
    }

    /// Called after unlinking: returns the epoch whose readers may still see what was unlinked.
    pub(crate) fn retire(&self) -> u64 {
        fence(Ordering::SeqCst);
        self.global.fetch_add(1, Ordering::SeqCst)
    }

    /// Everything retired at an epoch below this one may be freed.
    pub(crate) fn safe_before(&self) -> u64 {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        // Dropping the last `Arc` of a slot orders what its reader did before the following code.
        slots.retain(|s| Arc::strong_count(s) > 1);
        fence(Ordering::SeqCst);
        let now = self.global.load(Ordering::SeqCst);
        slots.iter().map(|s| s.0.load(Ordering::Acquire)).filter(|&e| e != IDLE).min().unwrap_or(now).min(now)
    }
}
