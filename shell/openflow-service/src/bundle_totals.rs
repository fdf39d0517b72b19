//! The number and the memory of all open bundles of a bridge.
//!
//! Each message that is added to a bundle checks the limits, so the totals are counters and not sums over the connections. A bundle also ends
//! when it expires or when its connection ends, which other crates decide. So each bundle owns a [`BundleShare`], which leaves the totals when
//! the bundle is dropped, whatever the reason.
//!
//! **Threads**: a bundle may be dropped by the thread that tries its messages, so the counters are atomic.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Limit of open bundles of all connections of a bridge together. Above it, only a connection without an open bundle may open one, so that a
/// few connections with many bundles cannot prevent all others from using bundles.
const BUNDLES_TOTAL_MAX: usize = 10_000;
/// Limit of the memory of all open bundles of a bridge, in bytes: 2 GiB hold three million flows.
const MEMORY_MAX: usize = 2 << 30;

#[derive(Debug, Default)]
struct Counters {
    bundles: AtomicUsize,
    memory: AtomicUsize,
}

/// The totals of a bridge.
#[derive(Debug, Default)]
pub struct BundleTotals(Arc<Counters>);

/// What one open bundle adds to the totals.
#[derive(Debug)]
pub(crate) struct BundleShare {
    counters: Arc<Counters>,
    memory: usize,
}

impl BundleTotals {
    /// Whether a connection that has this number of open bundles may open one more.
    pub(crate) fn has_space_for(&self, own: usize) -> bool {
        own == 0 || self.0.bundles.load(Relaxed) < BUNDLES_TOTAL_MAX
    }

    /// The share of a new bundle, which has no messages yet.
    pub(crate) fn open(&self) -> BundleShare {
        self.0.bundles.fetch_add(1, Relaxed);
        BundleShare { counters: Arc::clone(&self.0), memory: 0 }
    }

    /// The number of open bundles, and their memory in bytes.
    #[cfg(test)]
    pub(crate) fn get(&self) -> (usize, usize) {
        (self.0.bundles.load(Relaxed), self.0.memory.load(Relaxed))
    }
}

impl BundleShare {
    #[cfg(test)]
    pub(crate) fn memory(&self) -> usize {
        self.memory
    }

    /// Adds the memory of a message. Returns false, and adds nothing, if the limit would be exceeded.
    pub(crate) fn grow(&mut self, memory: usize) -> bool {
        // Only the main loop adds; another thread can only reduce the counter meanwhile.
        if self.counters.memory.load(Relaxed) + memory > MEMORY_MAX {
            return false;
        }
        self.counters.memory.fetch_add(memory, Relaxed);
        self.memory += memory;
        true
    }
}

impl Drop for BundleShare {
    fn drop(&mut self) {
        self.counters.bundles.fetch_sub(1, Relaxed);
        self.counters.memory.fetch_sub(self.memory, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limits_hold_for_all_bundles_together() {
        let totals = BundleTotals::default();
        let (mut first, mut second) = (totals.open(), totals.open());
        assert!(first.grow(MEMORY_MAX - 1) && second.grow(1) && !second.grow(1));
        assert_eq!(totals.get(), (2, MEMORY_MAX));
        drop(first);
        assert!(second.grow(1));
        assert_eq!(totals.get(), (1, 2));
        let others: Vec<_> = (1..BUNDLES_TOTAL_MAX).map(|_| totals.open()).collect();
        assert!(!totals.has_space_for(1) && totals.has_space_for(0));
        drop(second);
        assert!(totals.has_space_for(1));
        drop(others);
        assert_eq!(totals.get(), (0, 0));
    }
}
