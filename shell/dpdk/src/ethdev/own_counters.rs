//! Counters of packets that were lost outside the driver.

use packet::queue::TxResult;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of packets that were lost outside the driver. They are independent of each other, so relaxed accesses suffice.
#[derive(Default)]
pub(crate) struct OwnCounters {
    pub(super) rx_lost: AtomicU64,
    pub(super) tx_failed: AtomicU64,
    pub(super) tx_too_long: AtomicU64,
}

impl OwnCounters {
    pub(super) fn count_rx_lost(&self, n: u64) {
        self.rx_lost.fetch_add(n, Ordering::Relaxed);
    }

    pub(super) fn count_tx_lost(&self, result: &TxResult) {
        self.tx_failed.fetch_add(u64::from(result.dropped), Ordering::Relaxed);
        self.tx_too_long.fetch_add(u64::from(result.too_long), Ordering::Relaxed);
    }
}
