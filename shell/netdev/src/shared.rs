//! What a port's `Netdev` and its queues share: the descriptor, and what was dropped on it.

use crate::stats::Stats;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// One descriptor and its books. The counters are statistics: no order among them is promised.
pub struct Shared {
    fd: Arc<OwnedFd>,
    ended: AtomicBool,
    rx_dropped: AtomicU64,
    tx_dropped: AtomicU64,
}

impl Shared {
    /// Takes the descriptor.
    pub fn new(fd: OwnedFd) -> Arc<Shared> {
        Arc::new(Shared {
            fd: Arc::new(fd),
            ended: AtomicBool::new(false),
            rx_dropped: AtomicU64::new(0),
            tx_dropped: AtomicU64::new(0),
        })
    }

    /// The descriptor.
    pub fn fd(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.fd)
    }

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

    /// Counts frames that were lost on their way out.
    pub fn count_tx_dropped(&self, n: u64) {
        if n > 0 {
            self.tx_dropped.fetch_add(n, Ordering::Relaxed);
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
