//! A pool of buffers that several queues share.
//!
//! Each queue of the pool has a slot and a reserve, which no other queue can use; the buffers that are not reserved are shared. If fewer
//! buffers are unused than the reserve of a new queue, the queue gets no slot, and its owner opens one in another pool. The threshold
//! divides only the shared part.

use crate::threshold::Alpha;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use sync::PoolUsage;
use sync::quota::OwnerQuota;

/// The number of a queue's slot in a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolSlot(pub u32);

/// The quota of one slot. Buffers of a closed slot may still be in use.
#[derive(Debug, Default)]
struct SlotQuota {
    is_open: AtomicBool,
    quota: OwnerQuota,
    /// The largest number of buffers that were held since the slot was opened.
    peak: AtomicU32,
}

impl SlotQuota {
    fn is_used(&self) -> bool {
        self.is_open.load(Ordering::Acquire) || self.quota.held() > 0
    }
}

/// Quotas of a pool. One thread opens and closes slots; any thread may acquire and release.
#[derive(Debug)]
pub struct Pool {
    buffers: PoolUsage,
    slots: Box<[SlotQuota]>,
}

impl Pool {
    /// A pool of `buffers` buffers with `slots` slots.
    pub fn new(buffers: u32, slots: u32) -> Pool {
        let slots = (0..slots).map(|_| SlotQuota::default()).collect();
        Pool { buffers: PoolUsage::new(buffers), slots }
    }

    /// Number of buffers of the pool.
    pub fn buffers(&self) -> u32 {
        self.buffers.size()
    }

    /// Number of buffers that are not reserved: the total, and how many of them are unused now.
    pub fn shared(&self) -> (u32, u32) {
        let reserves: u32 = self.slots.iter().map(|slot| slot.quota.reserve()).sum();
        (self.buffers.size().saturating_sub(reserves), self.buffers.free())
    }

    /// Opens a slot with this reserve. `None`: all slots are in use, or fewer buffers are unused than the reserve.
    pub fn open(&self, reserve: u32) -> Option<PoolSlot> {
        let at = self.slots.iter().position(|slot| !slot.is_used())?;
        let slot = self.slots.get(at)?;
        if !slot.quota.open(&self.buffers, reserve) {
            return None;
        }
        slot.peak.store(0, Ordering::Relaxed);
        slot.is_open.store(true, Ordering::Release);
        Some(PoolSlot(at as u32))
    }

    /// Closes a slot and releases its reserve. The slot can be opened again when all its buffers were released.
    pub fn close(&self, slot: PoolSlot) {
        if let Some(slot) = self.slot_quota(slot) {
            slot.quota.close(&self.buffers);
            slot.is_open.store(false, Ordering::Release);
        }
    }

    fn slot_quota(&self, slot: PoolSlot) -> Option<&SlotQuota> {
        self.slots.get(slot.0 as usize)
    }

    /// Number of slots in use, and of all slots.
    pub fn slots(&self) -> (usize, usize) {
        (self.slots.iter().filter(|slot| slot.is_used()).count(), self.slots.len())
    }

    /// The number of buffers that the queue may hold at this moment: its reserve, and the part of the shared buffers that the threshold
    /// allows.
    pub fn allowance(&self, slot: PoolSlot, alpha: Alpha) -> u32 {
        let Some(slot) = self.slot_quota(slot) else { return 0 };
        let (reserve, held) = (slot.quota.reserve(), slot.quota.held());
        let not_of_others = self.buffers.free().saturating_add(held.saturating_sub(reserve));
        reserve.saturating_add(alpha.share(not_of_others))
    }

    /// Acquires quota for up to `want` buffers, so that the queue holds at most `allowance`; returns how many.
    pub fn acquire(&self, slot: PoolSlot, want: u32, allowance: u32) -> u32 {
        let Some(slot) = self.slot_quota(slot) else { return 0 };
        let n = slot.quota.acquire(&self.buffers, want, allowance);
        if n > 0 {
            slot.peak.fetch_max(slot.quota.held(), Ordering::Relaxed);
        }
        n
    }

    /// Releases the quota of `n` buffers. The buffers must be free before this call.
    pub fn release(&self, slot: PoolSlot, n: u32) {
        if let Some(slot) = self.slot_quota(slot) {
            slot.quota.release(&self.buffers, n);
        }
    }

    /// Number of buffers that the queue holds.
    pub fn held(&self, slot: PoolSlot) -> u32 {
        self.slot_quota(slot).map_or(0, |slot| slot.quota.held())
    }

    /// The largest number of buffers that the queue has held since its slot was opened.
    pub fn peak(&self, slot: PoolSlot) -> u32 {
        self.slot_quota(slot).map_or(0, |slot| slot.peak.load(Ordering::Relaxed))
    }

    /// Number of buffers that all queues hold.
    pub fn held_by_all(&self) -> u32 {
        self.slots.iter().map(|slot| slot.quota.held()).sum()
    }
}
