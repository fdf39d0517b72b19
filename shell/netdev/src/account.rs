//! A queue's account in a pool of quota. One unit of quota allows one buffer, which is allocated elsewhere: by the kernel, or on
//! the heap.

use crate::rx_buffers::{QueueUse, RxPoolSettings};
use buffer::BufferAccount;
use rxpool::{Pool, PoolSlot};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A pool, and the settings by which queues find it.
struct Entry {
    kind: &'static str,
    buffers: u32,
    queues: u32,
    reserve: u32,
    pool: Arc<Pool>,
}

static POOLS: Mutex<Vec<Entry>> = Mutex::new(Vec::new());

/// The account of a queue. Dropping it releases its quota and closes its slot in the pool.
pub struct Account {
    name: String,
    /// The pool.
    pub pool: Arc<Pool>,
    /// The queue's slot in the pool.
    pub slot: PoolSlot,
    /// The settings of receive buffers.
    pub settings: RxPoolSettings,
    /// Whether the queue is busy.
    pub busy: AtomicBool,
    /// How often the queue became busy.
    pub became_busy: AtomicU64,
    /// Packets that were lost after the queue had become idle and until it became busy.
    pub first_burst_lost: AtomicU64,
    /// High watermark: the largest number of buffers that are posted for the queue.
    high: u32,
    lost: AtomicU64,
}

impl Account {
    /// Opens an account; `None`: the reserves of all queues would use up the pool.
    pub fn open(kind: &'static str, settings: &RxPoolSettings, high: u32) -> Option<Arc<Account>> {
        let RxPoolSettings { pool_size: buffers, pool_queues: queues, reserve, .. } = *settings;
        let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
        let shape = (kind, buffers, queues, reserve);
        let fits = |e: &Entry| (e.kind, e.buffers, e.queues, e.reserve) == shape;
        let found = pools.iter().enumerate().filter(|(_, e)| fits(e));
        let found = found.map(|(i, e)| (i, Arc::clone(&e.pool))).find_map(|(i, pool)| {
            let slot = pool.open(reserve)?;
            Some((i, pool, slot))
        });
        let (number, pool, slot) = match found {
            Some(found) => found,
            None => {
                if queues.saturating_mul(reserve) >= buffers {
                    return None;
                }
                let pool = Arc::new(Pool::new(buffers, queues));
                let slot = pool.open(reserve)?;
                pools.push(Entry { kind, buffers, queues, reserve, pool: Arc::clone(&pool) });
                (pools.len() - 1, pool, slot)
            }
        };
        Some(Arc::new(Account {
            name: format!("{kind}.{number}"),
            pool,
            slot,
            settings: *settings,
            high,
            busy: AtomicBool::new(false),
            became_busy: AtomicU64::new(0),
            first_burst_lost: AtomicU64::new(0),
            lost: AtomicU64::new(0),
        }))
    }

    /// Adds packets for which the socket had no space.
    pub fn count_lost(&self, n: u64) {
        self.lost.fetch_add(n, Ordering::Relaxed);
    }

    /// The quota that the queue uses now.
    pub fn usage(&self) -> QueueUse {
        let held = self.pool.held(self.slot);
        QueueUse {
            pool: self.name.clone(),
            of_pool: (self.pool.buffers(), self.pool.held_by_all()),
            held,
            sending: 0,
            posted: held,
            peak: self.pool.peak(self.slot),
            allowance: self.pool.allowance(self.slot, self.settings.alpha),
            reserve: self.settings.reserve,
            high: self.high,
            busy: self.busy.load(Ordering::Relaxed),
            became_busy: self.became_busy.load(Ordering::Relaxed),
            first_burst_lost: self.first_burst_lost.load(Ordering::Relaxed),
            lost: self.lost.load(Ordering::Relaxed),
        }
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.pool.release(self.slot, self.pool.held(self.slot));
        self.pool.close(self.slot);
    }
}

impl BufferAccount for Account {
    fn release(&self) {
        self.pool.release(self.slot, 1);
    }
}
