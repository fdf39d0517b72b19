//! An rx queue of a worker: the device's queue, its counters and its state. It is moved as a whole when another worker polls the queue.

use crate::port::{RX_BURST, RxQueue};
use crate::port_count::QueueCount;
use crate::ports::{Counters, SHORTEST};
use crate::residence::{Histogram, ResidenceTimes, Scale, add};
use crate::rxq_backoff::RxqBackoff;
use crate::upcall_budget::Mix;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use units::{Cycles, PortNo, QueueId};

/// Total packets and cycles of a queue. Written by the one worker that polls the queue, read by all threads.
#[derive(Debug, Default)]
pub struct RxqLoad {
    cycles: AtomicU64,
    packets: AtomicU64,
    bursts: AtomicU64,
    full: AtomicU64,
    residence_times: ResidenceTimes,
}

impl RxqLoad {
    /// Counts a burst: its packets, and the cycles from receive to transmit.
    #[inline]
    pub(crate) fn burst(&self, packets: u64, cycles: Cycles) {
        self.add(cycles);
        add(&self.packets, packets);
        add(&self.bursts, 1);
        if packets >= RX_BURST as u64 {
            add(&self.full, 1);
        }
    }

    /// Counts a burst in the histogram of residence times. `time`: since the previous poll of the queue, the longest possible time.
    #[inline]
    pub(crate) fn count_residence(&self, packets: u64, time: Cycles, scale: Scale) {
        self.residence_times.add(packets, time, scale);
    }

    /// The histogram of residence times: see `residence.rs`.
    pub fn residence_times(&self) -> Histogram {
        self.residence_times.load()
    }

    #[inline]
    pub(crate) fn add(&self, cycles: Cycles) {
        add(&self.cycles, cycles.0);
    }

    /// Packets.
    pub fn packets(&self) -> u64 {
        self.packets.load(Ordering::Relaxed)
    }

    /// Number of iterations in which the queue delivered packets, and number of those with a full burst.
    pub fn bursts(&self) -> (u64, u64) {
        (self.bursts.load(Ordering::Relaxed), self.full.load(Ordering::Relaxed))
    }

    /// Cycles.
    pub fn cycles(&self) -> Cycles {
        Cycles(self.cycles.load(Ordering::Relaxed))
    }
}

/// A shared queue's part of a port's counters.
pub(crate) struct MemberCount {
    /// The counters of the port. If a number's port has other counters, another port has the number now.
    pub(crate) port: Arc<Counters>,
    pub(crate) count: Arc<QueueCount>,
}

/// An rx queue with its counters and its state for upcall budget and backoff.
pub struct Rxq {
    /// Its port; [`SHARED_RX`](crate::ports::SHARED_RX) if several ports share it.
    pub port: PortNo,
    /// Its number there.
    pub id: QueueId,
    pub(crate) queue: Box<dyn RxQueue>,
    pub(crate) load: Arc<RxqLoad>,
    /// The queue's part of the port's counters; `None` before its first burst, and if the port does not exist.
    pub(crate) received: Option<Arc<QueueCount>>,
    /// A batch with a frame shorter than this is inspected frame by frame.
    pub(crate) inspect_below: usize,
    /// The version of the worker's snapshots at which `received` and `inspect_below` were copied; 0: none.
    pub(crate) seen: u64,
    /// For a queue that several ports share: its part of the counters of each port, by port number.
    pub(crate) of_members: BTreeMap<u32, MemberCount>,
    /// Frames of it have tails that must go back.
    pub(crate) lent: bool,
    /// Packets received from it in the present iteration.
    pub(crate) in_iteration: u64,
    /// Time of the last poll. The packets of the next burst arrived after it, unless the last burst was full.
    pub(crate) polled_at: Cycles,
    /// Whether it is in rx queue backoff.
    pub(crate) backoff: RxqBackoff,
    /// Share of its packets without a megaflow, if misses may be parked.
    pub(crate) mix: Mix,
}

impl Rxq {
    /// Makes a queue that was never polled.
    pub fn new(port: PortNo, id: QueueId, queue: Box<dyn RxQueue>) -> Rxq {
        Rxq {
            port,
            id,
            queue,
            load: Arc::default(),
            received: None,
            inspect_below: SHORTEST,
            seen: 0,
            of_members: BTreeMap::new(),
            lent: false,
            in_iteration: 0,
            polled_at: Cycles(0),
            backoff: RxqBackoff::default(),
            mix: Mix::default(),
        }
    }

    /// The counters of the queue, which stay the same when another worker polls it.
    pub fn load(&self) -> Arc<RxqLoad> {
        Arc::clone(&self.load)
    }
}
