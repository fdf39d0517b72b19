//! `coverage/*` and `memory/show`.

use crate::answer::{Answer, unknown};
use ctl::names;
use std::collections::BTreeMap;
use switch::{Switch, publish_coverage_counters};

pub(crate) fn execute(switch: &mut Switch, name: &str, args: &[String]) -> Answer {
    match name {
        names::COVERAGE_SHOW => {
            publish_coverage_counters(switch);
            runtime::coverage::show().into()
        }
        names::COVERAGE_READ_COUNTER => {
            publish_coverage_counters(switch);
            let counter = args.first().map(String::as_str).unwrap_or_default();
            runtime::coverage::read_counter(counter).map_err(str::to_owned).into()
        }
        names::MEMORY_SHOW => {
            let usage = usage(switch);
            format!("{}\n", runtime::memory::report(&usage)).into()
        }
        _ => unknown(name),
    }
}

/// Numbers of objects, for `memory/show`.
pub(crate) fn usage(switch: &Switch) -> BTreeMap<String, u64> {
    let rules = switch.bridges.values().map(|b| b.ofproto.all_rules().count() as u64).sum();
    let ports = switch.bridges.values().map(|b| b.ports.len() as u64).sum();
    let flows = switch.datapaths.with_bridges().map(|b| b.datapath.flow_count() as u64).sum();
    let handlers = switch.datapaths.with_bridges().map(|b| b.handler_threads.count() as u64).sum();
    let connections = switch.bridges.values().map(|b| b.conns.open_counts().0 as u64).sum();
    let all = [
        ("handlers", handlers),
        ("idl-cells-Open_vSwitch", switch.db.replica.cells() as u64),
        ("ofconns", connections),
        ("ports", ports),
        ("revalidators", switch.datapaths.with_bridges().len() as u64),
        ("rules", rules),
        ("udpif keys", flows),
    ];
    all.into_iter().filter(|(_, n)| *n != 0).map(|(name, n)| (name.to_owned(), n)).collect()
}
