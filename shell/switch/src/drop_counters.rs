//! Publishes the datapath's counters of drops and of verified checksums as coverage counters of the process, so that `coverage/show` shows them under
//! the names that scripts use.

use crate::switch::Switch;
use datapath::Tally;
use datapath::checksum_counters::ChecksumCounter;
use dpif::DropReason;
use runtime::coverage::Counter;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// A coverage counter, and the total that was published last.
struct PublishedCounter {
    counter: Counter,
    published_total: AtomicU64,
}

impl PublishedCounter {
    fn new(name: &'static str) -> PublishedCounter {
        PublishedCounter { counter: Counter::new(name), published_total: AtomicU64::new(0) }
    }

    /// Sets the count to `total`, the sum over all datapaths. When a datapath is removed, its counts disappear from the sum; the coverage counter
    /// keeps its value then.
    fn update(&'static self, total: u64) {
        let published_total = self.published_total.swap(total, Ordering::Relaxed);
        self.counter.register();
        self.counter.add(total.saturating_sub(published_total));
    }
}

static DROPS: OnceLock<Vec<PublishedCounter>> = OnceLock::new();
static VERIFIED: OnceLock<[PublishedCounter; ChecksumCounter::COUNT]> = OnceLock::new();

/// Updates the coverage counters. Must be called before they are shown and before each sample of their rates.
pub fn publish_coverage_counters(switch: &Switch) {
    let tallies: Vec<Tally> = switch.datapaths.with_bridges().map(|b| b.datapath.tally()).collect();
    let sum = |of: &dyn Fn(&Tally) -> u64| tallies.iter().map(of).sum::<u64>();
    let drops =
        DROPS.get_or_init(|| DropReason::ALL.iter().map(|r| PublishedCounter::new(r.name())).collect());
    for (reason, published) in DropReason::ALL.iter().zip(drops) {
        published.update(sum(&|tally| tally.dropped(*reason)));
    }
    let verified =
        VERIFIED.get_or_init(|| ChecksumCounter::ALL.map(|what| PublishedCounter::new(what.name())));
    for (what, published) in ChecksumCounter::ALL.into_iter().zip(verified) {
        published.update(sum(&|tally| tally.verified(what)));
    }
}
