//! What a port's `Netdev` and its queues share: what was dropped on it, and mostly a descriptor.

use crate::stats::Stats;
use packet::queue::TxResult;
use std::ops::Deref;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The books of a port. The counters are statistics: no order among them is promised.
#[derive(Default)]
pub struct Books {
    ended: AtomicBool,
    rx_packets: AtomicU64,
    rx_bytes: AtomicU64,
    tx_packets: AtomicU64,
    tx_bytes: AtomicU64,
    rx_dropped: AtomicU64,
    tx_dropped: AtomicU64,
}

/// One descriptor and its books.
pub struct Shared {
    fd: Arc<OwnedFd>,
    books: Books,
}

impl Deref for Shared {
    type Target = Books;

    fn deref(&self) -> &Books {
        &self.books
    }
}

impl Shared {
    /// Takes the descriptor.
    pub fn new(fd: OwnedFd) -> Arc<Shared> {
        Arc::new(Shared { fd: Arc::new(fd), books: Books::default() })
    }

    /// The descriptor.
    pub fn fd(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.fd)
    }
}

impl Books {
    /// The port is no more; its queues are to fall silent.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Release);
    }

    /// See `end`.
    pub fn ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Counts frames that were lost on their way in.
    pub fn count_rx_dropped(&self, n: u64) {
        if n > 0 {
            self.rx_dropped.fetch_add(n, Ordering::Relaxed);
        }
    }

    /// Counts frames that came in.
    pub fn count_rx(&self, packets: u64, bytes: u64) {
        self.rx_packets.fetch_add(packets, Ordering::Relaxed);
        self.rx_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts frames that went out, and those that did not.
    pub fn count_tx(&self, result: &TxResult) {
        self.tx_packets.fetch_add(u64::from(result.sent), Ordering::Relaxed);
        self.tx_bytes.fetch_add(result.sent_bytes, Ordering::Relaxed);
        let dropped = u64::from(result.dropped + result.too_long);
        if dropped > 0 {
            self.tx_dropped.fetch_add(dropped, Ordering::Relaxed);
        }
    }

    /// What we counted ourselves, for a device whose kernel counters are out of reach.
    pub fn own_stats(&self) -> Stats {
        let read = |n: &AtomicU64| Some(n.load(Ordering::Relaxed));
        Stats {
            rx_packets: read(&self.rx_packets),
            rx_bytes: read(&self.rx_bytes),
            tx_packets: read(&self.tx_packets),
            tx_bytes: read(&self.tx_bytes),
            ..Stats::default()
        }
    }

    /// Adds our own losses to the kernel's.
    pub fn add_drops(&self, stats: &mut Stats) {
        let add =
            |to: &mut Option<u64>, n: &AtomicU64| *to = Some(to.unwrap_or(0) + n.load(Ordering::Relaxed));
        add(&mut stats.rx_dropped, &self.rx_dropped);
        add(&mut stats.tx_dropped, &self.tx_dropped);
    }
}
