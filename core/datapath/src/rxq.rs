//! An rx queue as workers pass it on: the device's object, and what was counted of it, which goes along.

use crate::port::RxQueue;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use units::{Cycles, PortNo, QueueId};

/// Cycles that a queue's packets took, ever. Written by the one worker that has the queue, read by all.
#[derive(Debug, Default)]
pub struct RxqLoad {
    cycles: AtomicU64,
}

impl RxqLoad {
    #[inline]
    pub(crate) fn add(&self, cycles: Cycles) {
        // There is one writer: no read-modify-write is needed.
        let sum = self.cycles.load(Ordering::Relaxed).wrapping_add(cycles.0);
        self.cycles.store(sum, Ordering::Relaxed);
    }

    /// The sum.
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
}

impl Rxq {
    /// A queue that nobody has polled yet.
    pub fn new(port: PortNo, id: QueueId, queue: Box<dyn RxQueue>) -> Rxq {
        Rxq { port, id, queue, load: Arc::default(), in_turn: 0 }
    }

    /// What is counted of it, whoever polls it.
    pub fn load(&self) -> Arc<RxqLoad> {
        Arc::clone(&self.load)
    }
}
