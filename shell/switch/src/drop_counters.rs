//! Publishes the datapath's counters of drops and of verified checksums as coverage counters of the process, so that `coverage/show` has them under
//! the names that scripts use.

use crate::switch::Switch;
use datapath::Tally;
use datapath::verified::Verified;
use dpif::DropReason;
use runtime::coverage::Counter;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

struct Published {
    counter: Counter,
    known: AtomicU64,
}

impl Published {
    fn new(name: &'static str) -> Published {
        Published { counter: Counter::new(name), known: AtomicU64::new(0) }
    }

    /// The count of all datapaths is `total` now. The counts of a datapath disappear with it: the coverage counter keeps
    /// its value then.
    fn update(&'static self, total: u64) {
        let known = self.known.swap(total, Ordering::Relaxed);
        self.counter.register();
        self.counter.add(total.saturating_sub(known));
    }
}

static DROPS: OnceLock<Vec<Published>> = OnceLock::new();
static VERIFIED: OnceLock<[Published; Verified::COUNT]> = OnceLock::new();

/// Updates the coverage counters of the datapath; also to be called before each sample of the rates.
pub fn publish_drops(switch: &Switch) {
    let tallies: Vec<Tally> = switch.datapaths.of_bridges().map(|b| b.datapath.tally()).collect();
    let sum = |of: &dyn Fn(&Tally) -> u64| tallies.iter().map(of).sum::<u64>();
    let drops = DROPS.get_or_init(|| DropReason::ALL.iter().map(|r| Published::new(r.name())).collect());
    for (reason, published) in DropReason::ALL.iter().zip(drops) {
        published.update(sum(&|tally| tally.dropped(*reason)));
    }
    let verified = VERIFIED.get_or_init(|| Verified::ALL.map(|what| Published::new(what.name())));
    for (what, published) in Verified::ALL.into_iter().zip(verified) {
        published.update(sum(&|tally| tally.verified(what)));
    }
}
