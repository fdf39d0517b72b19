//! Publishes the datapath's drop counters as coverage counters of the process, so that `coverage/show` has them under
//! the names that scripts use.

use crate::switch::Switch;
use dpif::DropReason;
use runtime::coverage::Counter;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

struct Drops {
    counter: Counter,
    known: AtomicU64,
}

static DROPS: OnceLock<Vec<Drops>> = OnceLock::new();

/// Updates the coverage counters of drops; also to be called before each sample of the rates.
pub fn publish_drops(switch: &Switch) {
    let fresh =
        |reason: &DropReason| Drops { counter: Counter::new(reason.name()), known: AtomicU64::new(0) };
    let all = DROPS.get_or_init(|| DropReason::ALL.iter().map(fresh).collect());
    let tallies: Vec<_> = switch.datapaths.of_bridges().map(|b| b.datapath.tally()).collect();
    for (reason, drops) in DropReason::ALL.iter().zip(all) {
        let total: u64 = tallies.iter().map(|t| t.dropped(*reason)).sum();
        // The counts of a datapath disappear with it: the coverage counter keeps its value then.
        let known = drops.known.swap(total, Ordering::Relaxed);
        drops.counter.register();
        drops.counter.add(total.saturating_sub(known));
    }
}
