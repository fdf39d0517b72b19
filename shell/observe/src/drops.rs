//! `/api/drops`: where packets are lost, and why.

use crate::samples::{name_of_worker, reason_name};
use crate::view::{DatapathView, PortView, View};
use datapath::last_drop::{LastDrop, Place};
use dpif::DropReason;
use flow::Flow;
use flow::text::{NoNames, flow_text};
use serde_json::{Value, json};
use units::PortNo;

/// Packets that are listed.
const RECENT_MAX: usize = 50;

/// Reasons with their numbers, and the packets that were dropped last.
pub fn json(view: &View) -> Value {
    let tallies: Vec<_> = view.datapaths.iter().map(|d| (&d.name, d.datapath.tally())).collect();
    let reason = |reason: &DropReason| {
        let of = |(name, tally): &(&String, datapath::Tally)| {
            ((*name).clone(), Value::from(tally.dropped(*reason)))
        };
        json!({
            "reason": reason_name(*reason),
            "counter": reason.name(),
            "stage": reason.stage().name(),
            "help": reason.help(),
            "look": reason.look(),
            "packets": tallies.iter().map(of).collect::<Value>(),
        })
    };
    let mut recent: Vec<(u64, Value)> = Vec::new();
    for datapath in &view.datapaths {
        let last = datapath.datapath.last_drops();
        recent.extend(last.iter().take(RECENT_MAX).map(|drop| (drop.at.0, one(view, datapath, drop))));
    }
    recent.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
    json!({
        "schema": 1,
        "reasons": DropReason::ALL.iter().map(reason).collect::<Vec<_>>(),
        "recent": recent.into_iter().take(RECENT_MAX).map(|(_, drop)| drop).collect::<Vec<_>>(),
    })
}

fn one(view: &View, datapath: &DatapathView, drop: &LastDrop) -> Value {
    let number = PortNo(drop.place.port());
    let is_here = |p: &&PortView| {
        p.number == Some(number) && view.datapaths.get(p.datapath).is_some_and(|d| std::ptr::eq(d, datapath))
    };
    let port = view.ports.iter().find(is_here);
    let is_out = matches!(drop.place, Place::Out(_));
    // Flows of OpenFlow have OpenFlow's port numbers.
    let in_port = port.filter(|_| !is_out).map_or(0, |p| p.ofport.to_u32());
    let flow = (drop.len > 0).then(|| flow_text(&Flow { in_port, ..drop.flow() }, &NoNames));
    json!({
        "seconds": view.now.since(drop.at).0 as f64 / 1000.0,
        "datapath": datapath.name,
        "thread": name_of_worker(datapath, drop.worker),
        "reason": reason_name(drop.reason),
        "direction": if is_out { "transmit" } else { "receive" },
        "port": port.map(|p| p.name.as_str()).or_else(|| datapath.names.get(&number).map(String::as_str)),
        "bridge": port.map(|p| &*p.bridge),
        "bytes": drop.len,
        "flow": flow,
    })
}
