//! An rx queue as workers pass it on: the device's object, and what was counted of it, which goes along.

use crate::port::{RX_BURST, RxQueue};
use crate::rxq_backoff::RxqBackoff;
use crate::upcall_budget::Mix;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use units::{Cycles, PortNo, QueueId};

/// What a queue brought and what that took, ever. Written by the one worker that has the queue, read by all.
#[derive(Debug, Default)]
pub struct RxqLoad {
    cycles: AtomicU64,
    packets: AtomicU64,
    bursts: AtomicU64,
    full: AtomicU64,
}

/// Adds where there is one writer: no read-modify-write is needed.
#[inline]
fn add(sum: &AtomicU64, n: u64) {
    sum.store(sum.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
}

impl RxqLoad {
    /// So many packets came at once, which took so many cycles up to their sending.
    #[inline]
    pub(crate) fn burst(&self, packets: u64, cycles: Cycles) {
        self.add(cycles);
        add(&self.packets, packets);
        add(&self.bursts, 1);
        if packets >= RX_BURST as u64 {
            add(&self.full, 1);
        }
    }

    #[inline]
    pub(crate) fn add(&self, cycles: Cycles) {
        add(&self.cycles, cycles.0);
    }

    /// Packets.
    pub fn packets(&self) -> u64 {
        self.packets.load(Ordering::Relaxed)
    }

    /// Turns that brought packets, and those of them that brought as many as one can.
    pub fn bursts(&self) -> (u64, u64) {
        (self.bursts.load(Ordering::Relaxed), self.full.load(Ordering::Relaxed))
    }

    /// Cycles.
    pub fn cycles(&self) -> Cycles {
        Cycles(self.cycles.load(Ordering::Relaxed))
    }
}

/// See the module.
pub struct Rxq {
    /// Its port.
    pub port: PortNo,
    /// Its number there.
    pub id: QueueId,
    pub(crate) queue: Box<dyn RxQueue>,
    pub(crate) load: Arc<RxqLoad>,
    /// Packets that it brought in the present turn.
    pub(crate) in_turn: u64,
    /// Whether it waits for others.
    pub(crate) backoff: RxqBackoff,
    /// How much of it has no megaflow, where misses may leave the worker.
    pub(crate) mix: Mix,
}

impl Rxq {
    /// A queue that nobody has polled yet.
    pub fn new(port: PortNo, id: QueueId, queue: Box<dyn RxQueue>) -> Rxq {
        Rxq {
            port,
            id,
            queue,
            load: Arc::default(),
            in_turn: 0,
            backoff: RxqBackoff::default(),
            mix: Mix::default(),
        }
    }

    /// What is counted of it, whoever polls it.
    pub fn load(&self) -> Arc<RxqLoad> {
        Arc::clone(&self.load)
    }
}
