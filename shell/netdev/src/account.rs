//! A queue's account in a pool of credits. A credit allows one buffer, which is allocated elsewhere: by the kernel, or on
//! the heap.

use crate::rx_buffers::{QueueUse, RxBuffers};
use buffer::Release;
use rxpool::{Place, Pool};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A pool of credits, and the settings by which queues find it.
struct Entry {
    kind: &'static str,
    buffers: u32,
    queues: u32,
    reserve: u32,
    pool: Arc<Pool>,
}

static POOLS: Mutex<Vec<Entry>> = Mutex::new(Vec::new());

/// The account of a queue; its place in the pool is closed when the account is dropped.
pub struct Account {
    name: String,
    /// The pool.
    pub pool: Arc<Pool>,
    /// Its place there.
    pub place: Place,
    /// The settings.
    pub wanted: RxBuffers,
    /// Whether the queue is busy.
    pub busy: AtomicBool,
    /// How often it became busy.
    pub woken: AtomicU64,
    /// Packets lost when it became busy.
    pub first_burst_lost: AtomicU64,
    high: u32,
    lost: AtomicU64,
}

impl Account {
    /// Opens a place; `None`: the reserves of a pool exceed its size.
    pub fn open(kind: &'static str, wanted: &RxBuffers, high: u32) -> Option<Arc<Account>> {
        let RxBuffers { pool_size: buffers, pool_queues: queues, reserve, .. } = *wanted;
        let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
        let shape = (kind, buffers, queues, reserve);
        let fits = |e: &Entry| (e.kind, e.buffers, e.queues, e.reserve) == shape;
        let found = pools.iter().enumerate().filter(|(_, e)| fits(e));
        let found = found.map(|(i, e)| (i, Arc::clone(&e.pool))).find_map(|(i, pool)| {
            let place = pool.open(reserve)?;
            Some((i, pool, place))
        });
        let (number, pool, place) = match found {
            Some(found) => found,
            None => {
                if queues.saturating_mul(reserve) >= buffers {
                    return None;
                }
                let pool = Arc::new(Pool::new(buffers, queues));
                let place = pool.open(reserve)?;
                pools.push(Entry { kind, buffers, queues, reserve, pool: Arc::clone(&pool) });
                (pools.len() - 1, pool, place)
            }
        };
        Some(Arc::new(Account {
            name: format!("{kind}.{number}"),
            pool,
            place,
            wanted: *wanted,
            high,
            busy: AtomicBool::new(false),
            woken: AtomicU64::new(0),
            first_burst_lost: AtomicU64::new(0),
            lost: AtomicU64::new(0),
        }))
    }

    /// Counts packets for which the socket had no space.
    pub fn count_lost(&self, n: u64) {
        self.lost.fetch_add(n, Ordering::Relaxed);
    }

    /// The credit of the queue at this moment.
    pub fn usage(&self) -> QueueUse {
        let held = self.pool.held(self.place);
        QueueUse {
            pool: self.name.clone(),
            of_pool: (self.pool.buffers(), self.pool.held_by_all()),
            held,
            sending: 0,
            posted: held,
            peak: self.pool.peak(self.place),
            allowance: self.pool.allowance(self.place, self.wanted.alpha),
            reserve: self.wanted.reserve,
            high: self.high,
            busy: self.busy.load(Ordering::Relaxed),
            woken: self.woken.load(Ordering::Relaxed),
            first_burst_lost: self.first_burst_lost.load(Ordering::Relaxed),
            lost: self.lost.load(Ordering::Relaxed),
        }
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.pool.refund(self.place, self.pool.held(self.place));
        self.pool.close(self.place);
    }
}

impl Release for Account {
    fn release(&self) {
        self.pool.refund(self.place, 1);
    }
}
