//! `coverage/*` and `memory/show`.
//!
//! Drops are counted by the datapath, reason by reason. They are made known to the process's coverage counters here,
//! so that `coverage/show` has them under the names that scripts know.

use super::{Answer, unknown};
use crate::switch::Switch;
use dpif::DropReason;
use runtime::coverage::Counter;
use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

pub(super) fn execute(switch: &mut Switch, name: &str, args: &[String]) -> Answer {
    match name {
        "coverage/show" => {
            publish_drops(switch);
            runtime::coverage::show().into()
        }
        "coverage/read-counter" => {
            publish_drops(switch);
            let counter = args.first().map(String::as_str).unwrap_or_default();
            runtime::coverage::read_counter(counter).map_err(str::to_owned).into()
        }
        "memory/show" => {
            let usage = usage(switch);
            format!("{}\n", runtime::memory::report(&usage)).into()
        }
        _ => unknown(name),
    }
}

struct Drops {
    counter: Counter,
    known: AtomicU64,
}

static DROPS: OnceLock<Vec<Drops>> = OnceLock::new();

/// Brings the coverage counters of drops up to date; to be called before each sample of the rates, too.
pub fn publish_drops(switch: &Switch) {
    let fresh =
        |reason: &DropReason| Drops { counter: Counter::new(reason.name()), known: AtomicU64::new(0) };
    let all = DROPS.get_or_init(|| DropReason::ALL.iter().map(fresh).collect());
    let tallies: Vec<_> = switch.backers.values().map(|b| b.datapath.tally()).collect();
    for (reason, drops) in DropReason::ALL.iter().zip(all) {
        let total: u64 = tallies.iter().map(|t| t.dropped(*reason)).sum();
        // A datapath that is gone takes its counts along: the counter stays where it was.
        let known = drops.known.swap(total, Ordering::Relaxed);
        drops.counter.register();
        drops.counter.add(total.saturating_sub(known));
    }
}

/// How many there are of what.
pub(super) fn usage(switch: &Switch) -> BTreeMap<String, u64> {
    let rules = switch.bridges.values().map(|b| b.ofproto.all_rules().count() as u64).sum();
    let ports = switch.bridges.values().map(|b| b.ports.len() as u64).sum();
    let flows = switch.backers.values().map(|b| b.datapath.flow_count() as u64).sum();
    let all = [
        ("ports", ports),
        ("revalidators", switch.backers.len() as u64),
        ("rules", rules),
        ("udpif keys", flows),
    ];
    all.into_iter().filter(|(_, n)| *n != 0).map(|(name, n)| (name.to_owned(), n)).collect()
}
