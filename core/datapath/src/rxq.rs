//! An rx queue of a worker: the device's queue, its counters and its state. All of it moves together when another
//! worker polls the queue.

use crate::port::{RX_BURST, RxQueue};
use crate::port_count::QueueCount;
use crate::ports::{Counters, SHORTEST};
use crate::residence::{Histogram, ResidenceTimes, Scale, add};
use crate::rxq_backoff::RxqBackoff;
use crate::upcall_budget::MissShare;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use units::{Cycles, PortNo, QueueId};

/// Total packets and cycles of a queue. Written by the worker that polls the queue, read by all threads.
#[derive(Debug, Default)]
pub struct RxqLoad {
    cycles: AtomicU64,
    packets: AtomicU64,
    bursts: AtomicU64,
    full: AtomicU64,
    residence_times: ResidenceTimes,
}

impl RxqLoad {
    /// Counts a burst: its packets, and the cycles from its receive to its transmit.
    #[inline]
    pub(crate) fn burst(&self, packets: u64, cycles: Cycles) {
        self.add(cycles);
        add(&self.packets, packets);
        add(&self.bursts, 1);
        if packets >= RX_BURST as u64 {
            add(&self.full, 1);
        }
    }

    /// Counts a burst in the histogram of residence times. `time`: cycles since the previous poll of the queue, the
    /// upper bound of the packets' residence time.
    #[inline]
    pub(crate) fn count_residence(&self, packets: u64, time: Cycles, scale: Scale) {
        self.residence_times.add(packets, time, scale);
    }

    /// The histogram of residence times; see `residence.rs`.
    pub fn residence_times(&self) -> Histogram {
        self.residence_times.load()
    }

    #[inline]
    pub(crate) fn add(&self, cycles: Cycles) {
        add(&self.cycles, cycles.0);
    }

    /// Number of packets.
    pub fn packets(&self) -> u64 {
        self.packets.load(Ordering::Relaxed)
    }

    /// Number of bursts that the queue delivered, and number of full bursts among them.
    pub fn bursts(&self) -> (u64, u64) {
        (self.bursts.load(Ordering::Relaxed), self.full.load(Ordering::Relaxed))
    }

    /// Number of cycles.
    pub fn cycles(&self) -> Cycles {
        Cycles(self.cycles.load(Ordering::Relaxed))
    }
}

/// The counter of a shared queue for one of its ports.
pub(crate) struct SharedPortCount {
    /// The counters of the port. If the port number has other counters now, the number was reused for another port.
    pub(crate) port: Arc<Counters>,
    pub(crate) count: Arc<QueueCount>,
}

/// An rx queue with its counters and its state for upcall budget and backoff.
pub struct Rxq {
    /// The port of the queue; [`SHARED_RX`](crate::ports::SHARED_RX) if several ports share the queue.
    pub port: PortNo,
    /// The number of the queue at its port.
    pub id: QueueId,
    pub(crate) queue: Box<dyn RxQueue>,
    pub(crate) load: Arc<RxqLoad>,
    /// The queue's part of the port's counters; `None` before its first burst, and if the port does not exist.
    pub(crate) received: Option<Arc<QueueCount>>,
    /// A batch with a frame shorter than this (in bytes) is checked frame by frame.
    pub(crate) check_frames_below: usize,
    /// The version of the worker's snapshots at which `received` and `check_frames_below` were copied; 0: none.
    pub(crate) copied_version: u64,
    /// For a queue that several ports share: its part of the counters of each port, by port number.
    pub(crate) by_port: BTreeMap<u32, SharedPortCount>,
    /// Frames from this queue have tails with leases that must be released.
    pub(crate) needs_return: bool,
    /// Number of packets received from the queue in the present iteration.
    pub(crate) in_iteration: u64,
    /// Time of the last poll. The packets of the next burst arrived after it, unless the last burst was full.
    /// 0: it was never polled.
    pub(crate) polled_at: Cycles,
    /// State of rx queue backoff.
    pub(crate) backoff: RxqBackoff,
    /// The share of misses among its packets, if misses may be parked.
    pub(crate) miss_share: MissShare,
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
            check_frames_below: SHORTEST,
            copied_version: 0,
            by_port: BTreeMap::new(),
            needs_return: false,
            in_iteration: 0,
            polled_at: Cycles(0),
            backoff: RxqBackoff::default(),
            miss_share: MissShare::default(),
        }
    }

    /// The counters of the queue. They stay the same when another worker polls the queue.
    pub fn load(&self) -> Arc<RxqLoad> {
        Arc::clone(&self.load)
    }
}
