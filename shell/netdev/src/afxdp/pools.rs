//! The pools that AF_XDP queues share: for each NUMA node and size of buffers as many as the queues need.
//!
//! A pool has places for a limited number of queues: for each socket the kernel keeps a record of every buffer of the
//! socket's umem. Pools live as long as the process; the memory of an unused one is returned to the kernel.

use crate::linux::umem::Umem;
use crate::rx_buffers::RxBuffers;
use rxpool::{Place, Pool};
use std::io;
use std::sync::{Mutex, PoisonError};
use units::NumaId;

/// Buffers that each queue is certain to get for packets that it sends by copying: half a burst.
pub const SEND_RESERVE: u32 = 32;

/// A pool and what it is for.
struct Entry {
    numa: NumaId,
    number: u32,
    umem: &'static Umem,
    shape: Shape,
}

/// Size of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    buffers: u32,
    queues: u32,
    reserve: u32,
    chunk: u32,
}

static POOLS: Mutex<Vec<Entry>> = Mutex::new(Vec::new());

/// Two places of a pool: for buffers that a queue posts, and for packets that it sends by copying.
pub struct Places {
    /// Name of the pool.
    pub name: String,
    /// Its umem.
    pub umem: &'static Umem,
    /// The places.
    pub places: [Place; 2],
}

/// The reserves of all queues of a pool.
pub fn reserves(wanted: &RxBuffers) -> u32 {
    wanted.pool_queues.saturating_mul(wanted.reserve + SEND_RESERVE)
}

/// Opens places in a pool with buffers of `chunk` bytes: in a new pool if others have no free places, or fewer free buffers than
/// the reserves need.
pub fn open(numa: NumaId, chunk: u32, wanted: &RxBuffers) -> io::Result<Places> {
    let shape =
        Shape { buffers: wanted.pool_size, queues: wanted.pool_queues, reserve: wanted.reserve, chunk };
    let mut pools = POOLS.lock().unwrap_or_else(PoisonError::into_inner);
    for entry in pools.iter().filter(|entry| entry.numa == numa && entry.shape == shape) {
        entry.umem.collect();
        if let Some(places) = entry.places(wanted.reserve) {
            return Ok(places);
        }
    }
    let pool = Pool::new(wanted.pool_size, 2 * wanted.pool_queues);
    let number = pools.iter().filter(|entry| entry.numa == numa).count() as u32;
    let entry = Entry { numa, number, umem: Umem::new(pool, chunk)?, shape };
    let places = entry.places(wanted.reserve).ok_or(io::ErrorKind::OutOfMemory)?;
    pools.push(entry);
    Ok(places)
}

impl Entry {
    fn places(&self, reserve: u32) -> Option<Places> {
        let pool = &self.umem.pool;
        let rx = pool.open(reserve)?;
        let Some(tx) = pool.open(SEND_RESERVE) else {
            pool.close(rx);
            return None;
        };
        let name = format!("{}.{}", self.numa.0, self.number);
        Some(Places { name, umem: self.umem, places: [rx, tx] })
    }
}
