//! Packets and bytes of a port in one direction, counted for each of its queues.
//!
//! A queue has one user at a time: the worker that polls an rx queue, or the holder of a tx queue's lock. So a
//! queue's counter needs no atomic read-modify-write, which would cost some 20 cycles each for packets and for bytes,
//! in every burst.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Packets and bytes of one queue. Any thread may read them. Each worker adds to its own queues for every burst, hence the alignment
/// (see [`sync::CachePadded`]).
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct QueueCount {
    packets: AtomicU64,
    bytes: AtomicU64,
}

impl QueueCount {
    /// Adds to the counter. Only the user of the queue may call it: additions of two threads at the same time would
    /// be lost.
    #[inline]
    pub(crate) fn add(&self, packets: u64, bytes: u64) {
        let add =
            |sum: &AtomicU64, n| sum.store(sum.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
        add(&self.packets, packets);
        add(&self.bytes, bytes);
    }

    fn get(&self) -> (u64, u64) {
        (self.packets.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }
}

/// The sum over all present and former queues of a port.
#[derive(Debug, Default)]
pub(crate) struct PortCount {
    queues: Mutex<Queues>,
}

#[derive(Debug, Default)]
struct Queues {
    present: Vec<Arc<QueueCount>>,
    /// Packets and bytes of queues that were removed.
    gone: (u64, u64),
}

impl PortCount {
    /// Returns the counter of a new queue. When all its copies outside this sum are dropped, the queue counts as
    /// removed.
    pub(crate) fn queue(&self) -> Arc<QueueCount> {
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        let Queues { present, gone } = &mut *queues;
        for count in present.extract_if(.., |count| Arc::strong_count(count) == 1) {
            *gone = sum(*gone, count.get());
        }
        let new = Arc::<QueueCount>::default();
        present.push(Arc::clone(&new));
        new
    }

    /// Packets and bytes so far.
    pub(crate) fn get(&self) -> (u64, u64) {
        let queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        queues.present.iter().fold(queues.gone, |total, count| sum(total, count.get()))
    }
}

fn sum(a: (u64, u64), b: (u64, u64)) -> (u64, u64) {
    (a.0.wrapping_add(b.0), a.1.wrapping_add(b.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_replaced_queues_stay() {
        let port = PortCount::default();
        let (first, second) = (port.queue(), port.queue());
        first.add(2, 120);
        second.add(1, 60);
        drop(first);
        let third = port.queue();
        third.add(5, 300);
        second.add(1, 60);
        assert_eq!(port.get(), (9, 540));
        assert_eq!(port.queues.lock().unwrap().present.len(), 2, "the first queue was folded");
    }
}
