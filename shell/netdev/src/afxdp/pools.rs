//! The pools that AF_XDP queues share. There are as many pools for each NUMA node and buffer size as the queues need.
//!
//! A pool has a limited number of queues, because for each socket the kernel keeps a record of every buffer of the
//! socket's umem. Pools live as long as the process; the memory of an unused pool is returned to the kernel.

use crate::linux::umem::Umem;
use crate::rx_buffers::RxPoolSettings;
use rxpool::{Pool, PoolSlot};
use std::io;
use std::sync::{Mutex, PoisonError};
use units::NumaId;

/// Number of buffers reserved for each queue for packets that it sends by copying: half a burst.
pub const SEND_RESERVE: u32 = 32;

/// A pool and its properties.
struct SharedPool {
    numa: NumaId,
    number: u32,
    umem: &'static Umem,
    shape: PoolShape,
}

/// The configuration of a pool. Queues with different configurations do not share a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PoolShape {
    buffers: u32,
    queues: u32,
    reserve: u32,
    /// Bytes of a buffer.
    chunk: u32,
}

static POOLS: Mutex<Vec<SharedPool>> = Mutex::new(Vec::new());

/// The slots of a queue in a pool: for buffers that it posts, and for packets that it sends by copying.
pub struct QueueSlots {
    /// Name of the pool.
    pub name: String,
    /// Its umem.
    pub umem: &'static Umem,
    /// The slots, in this order: for buffers that the queue posts, for packets that it sends by copying.
    pub slots: [PoolSlot; 2],
}

/// Sum of the reserves of all queues of a pool.
pub fn reserves(wanted: &RxPoolSettings) -> u32 {
    wanted.pool_queues.saturating_mul(wanted.reserve + SEND_RESERVE)
}

/// Opens slots in a pool with buffers of `chunk` bytes. Creates a new pool if no existing one has free slots and enough free buffers for
/// the reserves.
pub fn open(numa: NumaId, chunk: u32, wanted: &RxPoolSettings) -> io::Result<QueueSlots> {
    let shape =
        PoolShape { buffers: wanted.pool_size, queues: wanted.pool_queues, reserve: wanted.reserve, chunk };
    let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
    for entry in pools.iter().filter(|entry| entry.numa == numa && entry.shape == shape) {
        entry.umem.collect();
        if let Some(slots) = entry.slots(wanted.reserve) {
            return Ok(slots);
        }
    }
    let pool = Pool::new(wanted.pool_size, 2 * wanted.pool_queues);
    let number = pools.iter().filter(|entry| entry.numa == numa).count() as u32;
    let entry = SharedPool { numa, number, umem: Umem::new(pool, chunk)?, shape };
    let slots = entry.slots(wanted.reserve).ok_or(io::ErrorKind::OutOfMemory)?;
    pools.push(entry);
    Ok(slots)
}

impl SharedPool {
    /// Opens the two slots of a queue; `None`: the pool has no free slots, or too few free buffers for the reserves.
    fn slots(&self, reserve: u32) -> Option<QueueSlots> {
        let pool = &self.umem.pool;
        let rx = pool.open(reserve)?;
        let Some(tx) = pool.open(SEND_RESERVE) else {
            pool.close(rx);
            return None;
        };
        let name = format!("{}.{}", self.numa.0, self.number);
        Some(QueueSlots { name, umem: self.umem, slots: [rx, tx] })
    }
}
