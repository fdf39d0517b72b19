//! `/api/drops`: where packets are dropped, and why.

use crate::samples::{direction, name_of_worker, reason_name};
use crate::view::{DatapathView, PortView, View};
use datapath::DropCounts;
use datapath::last_drop::{DropPort, LastDrop};
use dpif::DropReason;
use flow::Flow;
use flow::flow::ct_state;
use flow::text::{NoNames, flow_text};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use units::PortNo;

/// Maximum number of dropped packets that are listed.
const RECENT_MAX: usize = 50;

/// Maximum number of ports that are listed for a reason: those with the most drops.
const PORTS_MAX: usize = 10;

/// The drop reasons with their counters, and the packets that were dropped last.
pub fn json(view: &View) -> Value {
    let tallies: Vec<_> = view.datapaths.iter().map(|d| (&d.name, d.datapath.tally())).collect();
    let places: Vec<_> = view.datapaths.iter().map(|d| (d, d.datapath.port_drops())).collect();
    let ports = |reason: DropReason| {
        let of = |(datapath, drops): &(&DatapathView, BTreeMap<DropPort, DropCounts>)| {
            let some = drops
                .iter()
                .map(|(drop_port, counts)| (*drop_port, counts[reason as usize]))
                .filter(|(_, n)| *n > 0);
            let named = |(drop_port, n): (DropPort, u64)| {
                Some((n, datapath.names.get(&PortNo(drop_port.port()))?.clone(), direction(drop_port)))
            };
            some.filter_map(named).collect::<Vec<_>>()
        };
        let mut all: Vec<_> = places.iter().flat_map(of).collect();
        all.sort_by(|a, b| b.cmp(a));
        let object = |(n, port, direction)| json!({ "port": port, "direction": direction, "packets": n });
        all.into_iter().take(PORTS_MAX).map(object).collect::<Value>()
    };
    let reason = |reason: &DropReason| {
        let of = |(name, tally): &(&String, datapath::Tally)| {
            ((*name).clone(), Value::from(tally.dropped(*reason)))
        };
        json!({
            "reason": reason_name(*reason),
            "counter": reason.name(),
            "stage": reason.stage().name(),
            "help": reason.help(),
            "command": reason.diagnostic_command(),
            "ports": ports(*reason),
            "packets": tallies.iter().map(of).collect::<Value>(),
        })
    };
    let mut recent: Vec<(u64, Value)> = Vec::new();
    for datapath in &view.datapaths {
        let last = datapath.datapath.last_drops();
        recent.extend(last.iter().take(RECENT_MAX).map(|drop| (drop.at.0, drop_json(view, datapath, drop))));
    }
    recent.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
    // Each thread records one packet of a flow. If several threads have recorded packets of a flow, the newest is listed.
    let mut seen = BTreeSet::new();
    recent.retain(|(_, drop)| {
        let key = ["datapath", "reason", "direction", "port", "flow"].map(|name| drop[name].to_string());
        seen.insert(key)
    });
    json!({
        "schema": 1,
        "reasons": DropReason::ALL.iter().map(reason).collect::<Vec<_>>(),
        "recent": recent.into_iter().take(RECENT_MAX).map(|(_, drop)| drop).collect::<Vec<_>>(),
    })
}

fn drop_json(view: &View, datapath: &DatapathView, drop: &LastDrop) -> Value {
    let number = PortNo(drop.port.port());
    let is_here = |p: &&PortView| {
        p.number == Some(number) && view.datapaths.get(p.datapath).is_some_and(|d| std::ptr::eq(d, datapath))
    };
    let port = view.ports.iter().find(is_here);
    let is_out = matches!(drop.port, DropPort::Out(_));
    // The flow is shown with OpenFlow port numbers, so that it can be traced.
    let in_port = port.filter(|_| !is_out).map_or(0, |p| p.ofport.to_u32());
    let flow = (drop.len > 0).then(|| flow_text(&Flow { in_port, ..drop.flow() }, &NoNames));
    json!({
        "seconds": view.now.since(drop.at).0 as f64 / 1000.0,
        "datapath": datapath.name,
        "thread": name_of_worker(datapath, drop.worker),
        "reason": reason_name(drop.reason),
        "direction": direction(drop.port),
        "port": port.map(|p| p.name.as_str()).or_else(|| datapath.names.get(&number).map(String::as_str)),
        "bridge": port.map(|p| &*p.bridge),
        "bytes": drop.len,
        "flow": flow,
        "hint": hint(drop.reason, &drop.flow()),
    })
}

/// A hint about the cause that the packet's fields give in addition to the drop reason.
fn hint(reason: DropReason, flow: &Flow) -> Option<&'static str> {
    if flow.ct_state & ct_state::INVALID != 0 {
        Some("invalid for connection tracking")
    } else if reason == DropReason::ActionOfPipeline && flow.is_ip() && flow.nw_ttl <= 1 {
        Some("its TTL is used up")
    } else {
        None
    }
}
